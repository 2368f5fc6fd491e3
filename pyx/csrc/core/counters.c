#define _GNU_SOURCE
#include "counters.h"

#include "clock.h"

#include <sys/resource.h>
#include <unistd.h>

static void take(struct counter_block *block) {
    atomic_store(&block->tid, (uint64_t)gettid());
    block->base[0] = atomic_load(&block->cpu_ns);
    block->base[1] = atomic_load(&block->switches);
    block->base[2] = atomic_load(&block->preemptions);
    block->published = 0;
}

struct counter_block *counters_claim(struct counters *counters, enum counter_role role) {
    uint64_t used = atomic_load(&counters->used);
    for (uint64_t i = 0; i < used && i < COUNTER_BLOCKS; i++) {
        struct counter_block *block = &counters->block[i];
        uint32_t vacant = 0;
        if (atomic_load(&block->role) == (uint32_t)role &&
            atomic_compare_exchange_strong(&block->taken, &vacant, 1)) {
            take(block);
            return block;
        }
    }
    uint64_t i = atomic_fetch_add(&counters->used, 1);
    if (i >= COUNTER_BLOCKS) {
        atomic_store(&counters->used, COUNTER_BLOCKS);
        struct counter_block *shared = &counters->block[COUNTER_BLOCKS - 1];
        atomic_store(&shared->tid, 0);
        return shared;
    }
    struct counter_block *block = &counters->block[i];
    atomic_store(&block->taken, 1);
    take(block);
    atomic_store(&block->role, (uint32_t)role);
    return block;
}

static void publish(struct counter_block *block, const struct rusage *usage) {
    uint64_t cpu = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000u +
                   (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000u;
    atomic_store_explicit(&block->cpu_ns, block->base[0] + cpu, memory_order_relaxed);
    atomic_store_explicit(&block->switches, block->base[1] + (uint64_t)usage->ru_nvcsw, memory_order_relaxed);
    atomic_store_explicit(&block->preemptions, block->base[2] + (uint64_t)usage->ru_nivcsw,
                          memory_order_relaxed);
}

/* Not CLOCK_THREAD_CPUTIME_ID: reading it brings the scheduler's accounts up to date, and a thread that has
 * outlived its slice then loses the CPU at once instead of at the next tick. Two such readings in 4 ms halved
 * the slices of a spinning server and doubled its throughput. getrusage takes the accounts as they are, a
 * tick old at most. */
void counters_publish_now(struct counter_block *block, int64_t now) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    publish(block, &usage);
    block->published = now;
}

void counters_release(struct counter_block *block) {
    counters_publish_now(block, clock_now());
    atomic_store(&block->taken, 0);
}

void counters_lend(struct counter_block *block) {
    take(block);
}

void counters_lent(struct counter_block *block, pid_t pid) {
    atomic_store(&block->tid, (uint64_t)pid);
    atomic_store(&block->process, (int)pid);
}

void counters_settle(struct counter_block *block, const struct rusage *usage) {
    publish(block, usage);
    atomic_store(&block->process, -1);
}

void counters_vacate(struct counter_block *block) {
    atomic_store(&block->taken, 0);
}

int64_t counters_process_cpu(struct counter_block *block) {
    int process = atomic_load(&block->process);
    clockid_t clock;
    struct timespec used;
    if (process > 0 && !clock_getcpuclockid(process, &clock) && !clock_gettime(clock, &used))
        return (int64_t)block->base[0] + (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
    return (int64_t)atomic_load(&block->cpu_ns);
}

const char *counters_role_name(enum counter_role role) {
    static const char *const names[ROLE_COUNT] = {"none", "loop", "acceptor", "connection", "worker"};
    return role < ROLE_COUNT ? names[role] : "unknown";
}
