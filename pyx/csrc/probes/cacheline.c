/* A cache line handed there and back between two ends that poll: what one core takes to see what another has
 * written. With one_line both write the line that both poll; with two_lines each writes one that only the
 * other polls, so that a hop moves one line once. The polls do not pause: a pause instruction takes as long
 * as the hop. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <stdalign.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "one_line", "one_line|two_lines", "",
     "both ends write the same line; or each its own, which the other polls"},
    {0},
};

struct line {
    alignas(PROBE_APART) _Atomic uint64_t messages;
};

struct shared {
    struct line line[2];
};

/* The line that an end writes. The messages are numbered over both ends: end 0 sends the odd ones. */
static _Atomic uint64_t *line_of(const struct probe_end *me, int end) {
    struct shared *shared = me->shared;
    return &shared->line[end && config_is(me->config, "variant", "two_lines")].messages;
}

static int64_t poll_for(_Atomic uint64_t *line, uint64_t number) {
    uint64_t found;
    while ((found = atomic_load_explicit(line, memory_order_acquire)) < number)
        ;
    return found == number ? 0 : -EPROTO;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    _Atomic uint64_t *mine = line_of(me, 0), *theirs = line_of(me, 1);
    uint64_t number = 2 * me->sent;
    int64_t rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++, number += 2) {
        atomic_store_explicit(mine, number + 1, memory_order_release);
        rc = poll_for(theirs, number + 2);
    }
    me->sent = me->received = number / 2;
    return rc;
}

static int serve(struct probe_end *me) {
    _Atomic uint64_t *mine = line_of(me, 1), *theirs = line_of(me, 0);
    int64_t rc = 0;
    for (int last = 0; !rc && !last;) {
        rc = poll_for(theirs, 2 * me->received + 1);
        me->received++;
        last = atomic_load_explicit(me->stop, memory_order_acquire);
        me->sent++;
        atomic_store_explicit(mine, 2 * me->sent, memory_order_release);
    }
    return (int)rc;
}

static const struct probe_ops cacheline = {
    .name = "cacheline",
    .summary = "a cache line handed there and back between two ends that poll",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2, .spins = 1, .shared = sizeof(struct shared)},
    .work = work,
    .serve = serve,
};
REGISTER_PROBE(cacheline);
