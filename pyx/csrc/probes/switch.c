/* One context switch, without anything that waits or wakes: two ends on one CPU yield it to each other.
 *
 * A yield may return at once, with nobody else having run. So the turn is a shared word, and a unit is there
 * and back: the turn passed twice, which on one CPU takes two switches. The yields that a turn took are a
 * note, which is 1 where each led to a switch. Half of what is left of `yield` less `calls` is one switch,
 * with the refill of the caches that the other end's working set emptied. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "yield", "yield|calls", "",
     "two ends yield to each other; or one end yields, with nobody to yield to"},
    {"working_set", KNOB_INT, "0", "0:16384", "kB", "memory of its own that an end touches in each turn"},
    {0},
};

enum { LINE = 64 };

struct shared {
    _Atomic uint64_t turn; /* even: of end 0 */
    _Atomic int cpu;       /* of end 0 */
};

struct own {
    uint64_t yields, turns;
    size_t bytes;
    volatile unsigned char memory[];
};

static int alone(const struct config *config) {
    return config_is(config, "variant", "calls");
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (alone(config))
        *form = (struct probe_form){.unit = "two yields", .ends = 1};
}

static int open_end(struct probe_end *me) {
    struct shared *shared = me->shared;
    size_t bytes = (size_t)config_int(me->config, "working_set") << 10;
    struct own *own = me->own = malloc(sizeof(*own) + bytes);
    if (!own)
        return -ENOMEM;
    memset(own, 0, sizeof(*own) + bytes);
    own->bytes = bytes;
    if (alone(me->config))
        return 0;
    if (!me->end)
        shared->cpu = me->cpu;
    return me->cpu < 0 || shared->cpu != me->cpu ? -EINVAL : 0; /* they must share one CPU */
}

static void touch(struct own *own) {
    for (size_t i = 0; i < own->bytes; i += LINE)
        own->memory[i]++;
}

static void yield_until(struct own *own, struct shared *shared, uint64_t mine) {
    while ((atomic_load_explicit(&shared->turn, memory_order_acquire) & 1) != mine) {
        sched_yield();
        own->yields++;
    }
    own->turns++;
}

static void yield_alone(struct own *own) {
    for (int i = 0; i < 2; i++) {
        touch(own);
        sched_yield();
    }
}

static int64_t work(struct probe_end *me, uint64_t count) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    for (uint64_t i = 0; i < count; i++) {
        if (!shared) {
            yield_alone(own);
            continue;
        }
        touch(own);
        me->sent++;
        atomic_fetch_add(&shared->turn, 1);
        yield_until(own, shared, 0);
        me->received++;
    }
    return 0;
}

static int serve(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    for (int last = 0; !last;) {
        yield_until(own, shared, 1);
        me->received++;
        last = atomic_load(me->stop);
        touch(own);
        me->sent++;
        atomic_fetch_add(&shared->turn, 1);
    }
    return 0;
}

static void close_end(struct probe_end *me) {
    struct own *own = me->own;
    if (own && own->turns)
        probe_note(me, "yields_a_turn", (double)own->yields / (double)own->turns);
    free(own);
}

static const struct probe_ops switch_probe = {
    .name = "switch",
    .summary = "a context switch between two ends that yield one CPU to each other",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "two yields and two switches", .ends = 2, .shared = sizeof(struct shared)},
    .shape = shape,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(switch_probe);
