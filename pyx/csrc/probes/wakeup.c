/* Two threads that wake each other through futexes: on one CPU a hop is a system call and a context switch;
 * on two idle CPUs it is an interrupt to the other processor and its way out of halt. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/placement.h"
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"cpus", KNOB_TEXT, "0,0", "CPU of either end, as in 0,1", "", "where the two ends run"},
    {0},
};

enum { BATCH = 200 };

struct pair {
    _Atomic int turn;
    _Atomic int stop;
    char cpu[16];
};

static void futex(_Atomic int *word, int operation, int value) {
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void pass(struct pair *pair, int to) {
    atomic_store(&pair->turn, to);
    futex(&pair->turn, FUTEX_WAKE, 1);
}

static void await(struct pair *pair, int mine) {
    while (atomic_load(&pair->turn) != mine)
        futex(&pair->turn, FUTEX_WAIT, !mine);
}

static void *partner(void *argument) {
    struct pair *pair = argument;
    placement_bind(pair->cpu);
    while (!atomic_load(&pair->stop)) {
        await(pair, 1);
        pass(pair, 0);
    }
    return NULL;
}

static int run(const struct config *config, int64_t budget_ns, double *samples, size_t capacity,
               size_t *count) {
    int first, second;
    if (sscanf(config_text(config, "cpus"), "%d,%d", &first, &second) != 2)
        return -EINVAL;
    struct pair pair = {0};
    cpu_set_t before;
    char cpu[16];
    snprintf(cpu, sizeof(cpu), "%d", first);
    snprintf(pair.cpu, sizeof(pair.cpu), "%d", second);
    sched_getaffinity(0, sizeof(before), &before);
    int rc = placement_bind(cpu);
    pthread_t thread;
    if (!rc)
        rc = -pthread_create(&thread, NULL, partner, &pair);
    if (rc)
        return rc;
    int64_t until = clock_now() + budget_ns;
    for (*count = 0; *count < capacity && clock_now() < until; (*count)++) {
        int64_t start = clock_now();
        for (int i = 0; i < BATCH; i++) {
            pass(&pair, 1);
            await(&pair, 0);
        }
        samples[*count] = (double)(clock_now() - start) / BATCH;
    }
    atomic_store(&pair.stop, 1);
    pass(&pair, 1);
    pthread_join(thread, NULL);
    sched_setaffinity(0, sizeof(before), &before);
    return 0;
}

static const struct probe_ops wakeup = {
    .name = "wakeup",
    .summary = "two threads that wake each other through a futex",
    .unit_of_work = "round trip",
    .knobs = knobs,
    .run = run,
};
REGISTER_PROBE(wakeup);
