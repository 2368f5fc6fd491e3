/* A pthread mutex.
 *
 * shared: all ends lock it, count, and unlock it. An end that unlocks it may well get it again before another
 * has woken up, so that the time for a lock and an unlock is not the time in which it changes hands: how
 * often it changes hands is counted.
 *
 * handoff: each owner leaves the time at which it gave the mutex up. Another that was waiting for it by then,
 * and has it now, was handed it: the time between is the latency. One that came later found it free, which is
 * a change of owner but no hand-off. Three readings of the clock a turn, two of them inside, make this
 * another workload than `shared`, hence a variant.
 *
 * pingpong: strictly in turn, each mutex unlocked by the end that locked it. That takes three mutexes. In
 * turn k its end holds k and k + 1 (all numbers modulo three); the other end holds k + 2 and waits for k + 1.
 * The turn is passed by unlocking k + 1: the other end has it then, and k + 2. This end, which holds k = k +
 * 3, waits for k + 2 until turn k + 1 is passed: so all is as it was, one further. Nobody can take a turn
 * twice, as what it would have to lock is held by the other end until that has had its own. A
 * checker of lock orders will object to the ring: but the end that has the turn never waits, so nothing can
 * stand still.
 *
 * What is guarded is on cache lines apart from the mutex's: a waiter that tries the lock does not slow down
 * the work of its owner. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/histogram.h"
#include "../core/probe.h"
#include "../core/registry.h"
#include "futexes.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALIBRATIONS = 10, CALIBRATION_TURNS = 20000 };
#define PATIENCE 1000000000LL /* ns for a hand-off to come; the watcher's is longer */

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "shared", "shared|handoff|pingpong|calls", "",
     "all ends count under one; the same with the hand-offs timed; two ends in turn; or the calls of a round "
     "trip "
     "by one end, which never waits"},
    {"ends", KNOB_INT, "2", "1:64", "", "that share it (shared, handoff)"},
    {"work_inside", KNOB_INT, "0", "0:1000000", "ns", "burnt by the owner (shared, handoff)"},
    {"work_outside", KNOB_INT, "0", "0:1000000", "ns", "burnt between two turns (shared, handoff)"},
    {"protocol", KNOB_CHOICE, "none", "none|inherit", "", "whether the owner inherits the waiters' priority"},
    {"sleeps", KNOB_INT, "2", "0:2", "", "of a round trip, whose system calls are made (calls)"},
    {0},
};

struct guarded {
    _Alignas(PROBE_APART) uint64_t sum;
    int owner; /* its number + 1; 0: nobody yet */
    int64_t released;
};

struct shared {
    struct {
        _Alignas(PROBE_APART) pthread_mutex_t mutex;
    } at[3];
    struct guarded guarded;
    _Alignas(PROBE_APART) _Atomic uint32_t word;
    _Atomic int closed; /* ends that have */
};

struct own {
    int64_t (*work)(struct probe_end *me, uint64_t count); /* of the variant */
    uint64_t sleeps;                                       /* of a round trip (calls) */
    uint64_t inside, outside;                              /* turns of the burning loop */
    uint64_t acquisitions, changes;
    uint64_t turn; /* the next of this end (pingpong) */
    int64_t stamp_ns;
    struct histogram handoffs;
};

static int is(const struct config *config, const char *variant) {
    return config_is(config, "variant", variant);
}

static int contended(const struct config *config) {
    return is(config, "shared") || is(config, "handoff");
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (is(config, "calls")) {
        form->ends = 1;
        form->alike = 0;
        form->unit = "unlock and lock with their system calls, twice";
    } else if (is(config, "pingpong")) {
        form->alike = 0;
        form->unit = "round trip";
    } else {
        form->ends = (int)config_int(config, "ends");
        form->unit = is(config, "handoff") ? "hand-off" : "lock and unlock";
    }
}

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)pairs, (void)processes, (void)size;
    if (is(config, "handoff") && config_int(config, "ends") < 2)
        return snprintf(message, room, "a mutex is handed over between ends: ask for ends=2 or more"),
               -EINVAL;
    if (is(config, "calls") && config_is(config, "protocol", "inherit"))
        return snprintf(message, room, "the calls of protocol=inherit cannot be made alone: ask for none"),
               -EINVAL;
    return 0;
}

/* ---- burning ---- */

static void burn(uint64_t turns) {
    while (turns--)
        __asm__ volatile("" ::: "memory");
}

/* Turns of the loop in one ns: the most that was seen, as others may run meanwhile. */
static double calibrate(void) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < CALIBRATIONS; i++) {
        int64_t start = clock_now();
        burn(CALIBRATION_TURNS);
        int64_t took = clock_now() - start;
        least = took < least ? took : least;
    }
    return (double)CALIBRATION_TURNS / (double)(least > 0 ? least : 1);
}

/* ---- opening and closing ---- */

static int begin(const struct probe_end *me) {
    struct shared *shared = me->shared;
    pthread_mutexattr_t kind;
    int rc = pthread_mutexattr_init(&kind);
    if (!rc && me->processes)
        rc = pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    if (!rc && config_is(me->config, "protocol", "inherit"))
        rc = pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    for (int i = 0; i < 3 && !rc; i++)
        rc = pthread_mutex_init(&shared->at[i].mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    return -rc;
}

static int lock(struct probe_end *me, uint64_t number) {
    struct shared *shared = me->shared;
    return -pthread_mutex_lock(&shared->at[number % 3].mutex);
}

static int unlock(struct probe_end *me, uint64_t number) {
    struct shared *shared = me->shared;
    return -pthread_mutex_unlock(&shared->at[number % 3].mutex);
}

/* Least latency than which no more than the share of all is greater. */
static double quantile(const struct histogram *histogram, double share) {
    double wanted = share * (double)histogram->count, seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        if ((seen += (double)histogram->bucket[i]) >= wanted)
            return (double)histogram_floor(i) + (double)(histogram_width(i) - 1) / 2;
    return (double)histogram->max;
}

static void note(struct probe_end *me) {
    struct own *own = me->own;
    const struct histogram *handoffs = &own->handoffs;
    probe_note(me, "acquisitions", (double)own->acquisitions);
    probe_note(me, "owner_changes", (double)own->changes);
    if (own->changes)
        probe_note(me, "acquisitions_a_change", (double)own->acquisitions / (double)own->changes);
    if (!is(me->config, "handoff"))
        return;
    probe_note(me, "stamp_ns", (double)own->stamp_ns);
    probe_note(me, "handoffs", (double)handoffs->count);
    if (!handoffs->count)
        return;
    probe_note(me, "handoff_p50_ns", quantile(handoffs, 0.5));
    probe_note(me, "handoff_p90_ns", quantile(handoffs, 0.9));
    probe_note(me, "handoff_mean_ns", (double)handoffs->sum / (double)handoffs->count);
}

static void close_end(struct probe_end *me) {
    struct shared *shared = me->shared;
    struct own *own = me->own;
    if (own && contended(me->config)) {
        note(me);
        /* What was counted under the mutex must be what all ends have done: the last end knows the sum. */
        me->sent = own->acquisitions;
        if (atomic_fetch_add(&shared->closed, 1) + 1 == me->ends)
            me->received = shared->guarded.sum;
    }
    free(own);
}

/* ---- all ends under one ---- */

/* What every owner does. Whether the mutex was another's before. */
static int own_it(struct probe_end *me) {
    struct guarded *guarded = &((struct shared *)me->shared)->guarded;
    struct own *own = me->own;
    int changed = guarded->owner && guarded->owner != me->end + 1;
    guarded->owner = me->end + 1;
    guarded->sum++;
    own->acquisitions++;
    own->changes += (unsigned)changed;
    burn(own->inside);
    return changed;
}

static int64_t share(struct probe_end *me, uint64_t count) {
    struct own *own = me->own;
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        if ((rc = lock(me, 0)))
            break;
        own_it(me);
        rc = unlock(me, 0);
        burn(own->outside);
    }
    return rc;
}

/* One turn. *took: ns of the hand-off that it began with; 0: it did not begin with one. */
static int stamped(struct probe_end *me, int64_t *took, int64_t *now) {
    struct guarded *guarded = &((struct shared *)me->shared)->guarded;
    struct own *own = me->own;
    int64_t asked = clock_now();
    int rc = lock(me, 0);
    *now = clock_now();
    if (rc)
        return rc;
    int64_t released = guarded->released;
    int changed = own_it(me);
    guarded->released = clock_now();
    rc = unlock(me, 0);
    *took = changed && asked < released ? *now - released : 0;
    burn(own->outside);
    return rc;
}

/* Until the mutex has been handed to this end so often. All ends go on until all have had enough: what the
 * last of them waits for may then never come. */
static int64_t be_handed(struct probe_end *me, uint64_t count) {
    struct own *own = me->own;
    int64_t total = 0, begun = clock_now(), now = begun, took;
    uint64_t handed = 0;
    while (handed < count && now - begun < PATIENCE && !atomic_load(me->stop)) {
        int rc = stamped(me, &took, &now);
        if (rc)
            return rc;
        if (took <= 0)
            continue;
        histogram_record(&own->handoffs, (uint64_t)took);
        total += took;
        handed++;
    }
    if (!handed && !atomic_load(me->stop)) {
        me->why =
            "hardly a hand-off within a second: the ends seldom meet; give more work_inside or more ends";
        return -ENODATA;
    }
    if (!handed)
        return 0;
    return (int64_t)((double)total * (double)count / (double)handed + 0.5);
}

/* ---- in turn ---- */

/* Passes this end's turn on. */
static int pass(struct probe_end *me) {
    struct guarded *guarded = &((struct shared *)me->shared)->guarded;
    struct own *own = me->own;
    if (guarded->sum++ != own->turn) /* somebody had two turns, or both have this one */
        return -EPROTO;
    int rc = unlock(me, own->turn + 1);
    own->turn += 2;
    me->sent++;
    return rc;
}

/* Waits for it. */
static int await(struct probe_end *me) {
    struct own *own = me->own;
    int rc = lock(me, own->turn);
    me->received++;
    return rc;
}

static int64_t round_trips(struct probe_end *me, uint64_t count) {
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = pass(me);
        rc = rc ? rc : await(me);
    }
    return rc;
}

static int serve(struct probe_end *me) {
    int rc = 0, last = 0;
    while (!rc && !last) {
        rc = await(me);
        last = atomic_load(me->stop);
        rc = rc ? rc : pass(me);
    }
    return rc;
}

/* An unlock and a lock that meet nobody stay out of the kernel: what they call where somebody waits is called
 * here as well, in forms that find nothing to do. */
static int64_t calls(struct probe_end *me, uint64_t count) {
    struct shared *shared = me->shared;
    uint64_t sleeps = ((struct own *)me->own)->sleeps;
    int rc = 0;
    for (uint64_t i = 0; i < 2 * count && !rc; i++) {
        rc = lock(me, i);
        rc = rc ? rc : unlock(me, i);
        if (i % 2 < sleeps)
            rc = rc ? rc : futexes_nobody(&shared->word, me->processes);
    }
    return rc;
}

/* ---- */

static int open_end(struct probe_end *me) {
    struct own *own = me->own = calloc(1, sizeof(*own));
    if (!own)
        return -ENOMEM;
    double turns = calibrate();
    own->inside = (uint64_t)(turns * (double)config_int(me->config, "work_inside"));
    own->outside = (uint64_t)(turns * (double)config_int(me->config, "work_outside"));
    own->stamp_ns = probe_clock_cost();
    own->sleeps = (uint64_t)config_int(me->config, "sleeps");
    own->turn = (uint64_t)me->end;
    own->work = is(me->config, "shared")     ? share
                : is(me->config, "handoff")  ? be_handed
                : is(me->config, "pingpong") ? round_trips
                                             : calls;
    int rc = me->end ? 0 : begin(me);
    if (own->work == round_trips) { /* turn 0 is end 0's, with 0 and 1: end 1 holds 2 */
        rc = rc ? rc : lock(me, me->end ? 2 : 0);
        rc = rc || me->end ? rc : lock(me, 1);
    }
    return rc;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    return ((struct own *)me->own)->work(me, count);
}

static const struct probe_ops mutex_probe = {
    .name = "mutex",
    .summary = "a pthread mutex: shared, handed over, in turn",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "lock and unlock", .ends = 2, .alike = 1, .shared = sizeof(struct shared)},
    .shape = shape,
    .check = check,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(mutex_probe);
