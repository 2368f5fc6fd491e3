/* What every load records: readings at the edges of the window, and failures by kind. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/load.h"
#include "../core/proctree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Idle time of all CPUs; the kernel gives it in clock ticks. */
static int64_t idle_time(void) {
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return -1;
    long long idle, waiting;
    int got = fscanf(file, "cpu %*d %*d %*d %lld %lld", &idle, &waiting);
    fclose(file);
    return got == 2 ? (idle + waiting) * (1000000000 / sysconf(_SC_CLK_TCK)) : -1;
}

void load_edge_sample(const struct load_env *env, struct load_edge *edge) {
    memset(edge, 0, sizeof(*edge));
    edge->server_cpu = -1;
    edge->idle = idle_time();
    clockid_t clock;
    if (env->server_tree)
        edge->server_cpu = proctree_cpu(env->server_pid);
    else if (env->server_pid && !clock_getcpuclockid(env->server_pid, &clock))
        edge->server_cpu = clock_read(clock);
    edge->time = clock_now();
    if (!env->counters)
        return;
    uint64_t used = atomic_load(&env->counters->used);
    for (uint64_t i = 0; i < used && i < COUNTER_BLOCKS; i++) {
        struct counter_block *block = &env->counters->block[i];
        uint32_t role = atomic_load(&block->role);
        if (role >= LOAD_ROLES)
            continue;
        if (edge->server_cpu >= 0 && !env->server_tree && atomic_load(&block->process))
            edge->server_cpu += counters_process_cpu(block);
        uint64_t *sum = edge->role[role];
        int k = 0;
#define COUNTER_ADD(name, unit, kind, help)                                                                  \
    {                                                                                                        \
        uint64_t value = atomic_load_explicit(&block->name, memory_order_relaxed);                           \
        sum[k] = kind[0] == 'p' ? (value > sum[k] ? value : sum[k]) : sum[k] + value;                        \
        k++;                                                                                                 \
    }
        COUNTER_LIST(COUNTER_ADD)
#undef COUNTER_ADD
    }
}

/* ns that a thread has waited for a processor so far. */
static int64_t run_queue_wait(pid_t tid) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    long long waited;
    int got = fscanf(file, "%*d %lld", &waited);
    fclose(file);
    return got == 1 ? waited : -1;
}

/* How often a thread has gone to sleep by itself so far. */
static uint64_t sleeps(pid_t tid) {
    char path[64], line[128];
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
    FILE *file = fopen(path, "re");
    unsigned long long count = 0;
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1)
            break;
    if (file)
        fclose(file);
    return count;
}

void load_edge_self(struct load_edge *edge) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    edge->load_cpu = clock_thread();
    edge->load_wait = run_queue_wait(gettid());
    edge->sleeps = (uint64_t)usage.ru_nvcsw;
}

/* A sum with an unknown part is unknown. */
static void add_known(int64_t *sum, int64_t part) {
    *sum = *sum < 0 || part < 0 ? -1 : *sum + part;
}

void load_edge_thread(struct load_edge *edge, pthread_t thread, pid_t tid) {
    clockid_t clock;
    add_known(&edge->load_cpu, pthread_getcpuclockid(thread, &clock) ? -1 : clock_read(clock));
    add_known(&edge->load_wait, run_queue_wait(tid));
    edge->sleeps += sleeps(tid);
}

void load_count_error(struct load_errors *errors, int rc) {
    switch (rc) {
    case -EBADMSG:
        errors->wrong++;
        break;
    case -EPROTO:
        errors->malformed++;
        break;
    case -ENOTCONN:
        errors->closed++;
        break;
    case -ECONNRESET:
    case -EPIPE:
        errors->reset++;
        break;
    case -ECONNREFUSED:
        errors->refused++;
        break;
    case -ETIMEDOUT:
        errors->timeout++;
        break;
    case -EOVERFLOW:
        errors->overloaded++;
        break;
    default:
        errors->other++;
    }
}
