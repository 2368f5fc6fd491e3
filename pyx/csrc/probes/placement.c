/* Where the scheduler puts a woken thread: three threads wake each other in a ring, on whatever CPU they
 * like. A sample is the share of hops that stayed on the waker's CPU although another was idle. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

static const struct knob knobs[] = {{0}};

enum { RING = 3, WORK_NS = 5000, HOPS_A_SAMPLE = 300 };

struct ring {
    sem_t turn[RING];
    _Atomic int stop;
    _Atomic int last_cpu;
    _Atomic uint64_t hops, stayed;
};

struct member {
    struct ring *ring;
    int index;
};

static void *pass(void *argument) {
    struct member *member = argument;
    struct ring *ring = member->ring;
    for (;;) {
        while (sem_wait(&ring->turn[member->index]))
            ;
        int cpu = sched_getcpu();
        atomic_fetch_add(&ring->hops, 1);
        if (atomic_exchange(&ring->last_cpu, cpu) == cpu)
            atomic_fetch_add(&ring->stayed, 1);
        int64_t until = clock_now() + WORK_NS;
        while (clock_now() < until)
            ;
        int stop = atomic_load(&ring->stop);
        sem_post(&ring->turn[(member->index + 1) % RING]);
        if (stop)
            return NULL;
    }
}

static int run(const struct config *config, int64_t budget_ns, double *samples, size_t capacity,
               size_t *count) {
    (void)config;
    struct ring ring = {.last_cpu = -1};
    struct member members[RING];
    pthread_t threads[RING];
    int started = 0, rc = 0;
    for (int i = 0; i < RING; i++) {
        sem_init(&ring.turn[i], 0, 0);
        members[i] = (struct member){&ring, i};
    }
    for (; started < RING && !rc; started += !rc)
        rc = -pthread_create(&threads[started], NULL, pass, &members[started]);
    *count = 0;
    int64_t until = clock_now() + budget_ns;
    if (!rc)
        sem_post(&ring.turn[0]);
    while (!rc && *count < capacity && clock_now() < until) {
        uint64_t hops = atomic_load(&ring.hops), stayed = atomic_load(&ring.stayed);
        struct timespec pause = clock_spec(HOPS_A_SAMPLE * 40000);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        uint64_t made = atomic_load(&ring.hops) - hops;
        if (made)
            samples[(*count)++] = (double)(atomic_load(&ring.stayed) - stayed) / (double)made;
    }
    atomic_store(&ring.stop, 1);
    for (int i = 0; i < RING; i++)
        sem_post(&ring.turn[i]);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RING; i++)
        sem_destroy(&ring.turn[i]);
    return rc;
}

static const struct probe_ops placement = {
    .name = "placement",
    .summary = "whether a woken thread stays on the waker's CPU although another is idle",
    .unit_of_work = "share of hops",
    .knobs = knobs,
    .run = run,
};
REGISTER_PROBE(placement);
