/* Where the scheduler puts a woken thread: three threads wake each other in a ring, and each works for a
 * moment before it does. Let go unbound over several CPUs, at least one of them is always idle: the note
 * stayed_share says how many hops stayed on the waker's CPU all the same. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <semaphore.h>

static const struct knob knobs[] = {{0}};

enum { RING = 3, WORK_NS = 5000 };

struct ring {
    sem_t turn[RING];
    int last_cpu; /* of who had the turn before: handed on with the turn */
    _Atomic uint64_t hops, stayed;
};

static int open_end(struct probe_end *me) {
    struct ring *ring = me->shared;
    if (me->end)
        return 0;
    ring->last_cpu = -1;
    for (int i = 0; i < RING; i++)
        if (sem_init(&ring->turn[i], me->processes, 0))
            return -errno;
    return 0;
}

static void pass_on(struct probe_end *me) {
    struct ring *ring = me->shared;
    ring->last_cpu = probe_cpu();
    sem_post(&ring->turn[(me->end + 1) % RING]);
}

/* Waits for the turn, and works. */
static void take(struct probe_end *me) {
    struct ring *ring = me->shared;
    while (sem_wait(&ring->turn[me->end]))
        ;
    atomic_fetch_add(&ring->hops, 1);
    if (ring->last_cpu == probe_cpu())
        atomic_fetch_add(&ring->stayed, 1);
    int64_t until = clock_now() + WORK_NS;
    while (clock_now() < until)
        ;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        pass_on(me);
        take(me);
    }
    return 0;
}

static int serve(struct probe_end *me) {
    for (int last = 0; !last;) {
        take(me);
        last = atomic_load(me->stop);
        pass_on(me);
    }
    return 0;
}

static void close_end(struct probe_end *me) {
    struct ring *ring = me->shared;
    uint64_t hops = me->end ? 0 : atomic_load(&ring->hops);
    if (hops)
        probe_note(me, "stayed_share", (double)atomic_load(&ring->stayed) / (double)hops);
}

static const struct probe_ops placement = {
    .name = "placement",
    .summary = "whether a woken thread stays on the waker's CPU although another is idle",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "turn of three hops", .ends = RING, .unbound = 1, .shared = sizeof(struct ring)},
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(placement);
