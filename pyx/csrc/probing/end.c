/* The life of one end: bound, opened, released with all others, warmed up, measured, closed.
 *
 * The clock is read between batches. A batch is as many units as make the two readings a hundredth of it:
 * one, where a unit takes microseconds or the probe has a clock of its own. Only batches that lie between the
 * moment at which the last end had warmed up and the moment at which the first had enough are kept, so that
 * all samples were taken under the same load.
 */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "arena.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CLOCKS_A_BATCH = 100,
    CLOCK_TRIES = 64,
    PARTS = 16,
    LEAST_WARM_BATCHES = 9,
    MOST_UNITS = 1000000,
    SPEED_TRIES = 3,
    SPEED_TURNS = 4000,
    SPEED_CALLS = 80
};
#define WARMUP_MOST 50000000LL /* ns */
#define STEP_LEAST 1000LL      /* ns of a batch that is long enough to size the next by */

static long futex(_Atomic int *word, int operation, int value) {
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void pass(struct gate *gate, int wanted) {
    if (atomic_fetch_add(&gate->arrived, 1) + 1 == wanted) {
        atomic_store(&gate->open, 1);
        futex(&gate->open, FUTEX_WAKE, INT_MAX);
    }
    while (!atomic_load(&gate->open))
        futex(&gate->open, FUTEX_WAIT, 0);
}

void probe_note(struct probe_end *me, const char *name, double value) {
    for (int i = 0; i < PROBE_NOTES; i++) {
        struct probe_note *note = &me->notes[i];
        if (*note->name && strcmp(note->name, name))
            continue;
        snprintf(note->name, sizeof(note->name), "%s", name);
        note->value = value;
        return;
    }
}

int probe_cpu(void) {
    return sched_getcpu();
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t probe_clock_cost(void) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < CLOCK_TRIES; i++) {
        int64_t start = clock_now();
        least = smaller(least, clock_now() - start);
    }
    return least > 0 ? least : 1;
}

static int bind(const struct probing_plan *plan, struct probe_end *me) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (plan->bound)
        CPU_SET((size_t)me->cpu, &set);
    for (int i = 0; i < plan->cpus && !plan->bound; i++)
        CPU_SET((size_t)plan->cpu[i], &set);
    return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

struct meter {
    const struct probing_plan *plan;
    const struct probe_form *form;
    struct arena *arena;
    struct end_state *state;
    struct probe_end *me;
    int64_t clock_ns;
    int cpu;
    int own; /* the probe counts the time itself */
};

/* A batch. Gives its ns, or a negated errno. One that the probe wants to be long is done in parts: the
 * watcher must see that it gets on. */
static int64_t batch(struct meter *meter, uint64_t count) {
    struct probing_record *record = &meter->state->record;
    uint64_t most = meter->form->batch ? 1 + meter->form->batch / PARTS : count;
    int64_t own = 0, start = clock_now();
    for (uint64_t part, left = count; left && own >= 0; left -= part) {
        part = left < most ? left : most;
        int64_t got = meter->plan->ops->work(meter->me, part);
        own = got < 0 ? got : own + got;
        atomic_fetch_add_explicit(&meter->state->progress, 1, memory_order_relaxed);
    }
    int64_t took = clock_now() - start;
    int cpu = sched_getcpu();
    record->migrations += cpu != meter->cpu;
    meter->cpu = cpu;
    record->units += count;
    meter->own |= own > 0;
    return own ? own : took;
}

/* Units between two readings of the clock, for a unit of so many ns. */
static uint64_t batch_for(double unit, int64_t clock_ns) {
    double wanted = (double)(CLOCKS_A_BATCH * clock_ns) / (unit > 0.1 ? unit : 0.1);
    return wanted < 1 ? 1 : wanted > MOST_UNITS ? MOST_UNITS : (uint64_t)(wanted + 0.5);
}

static double median(const double *value, int count) {
    double sorted[LEAST_WARM_BATCHES];
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at && sorted[at - 1] > value[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = value[i];
    }
    return sorted[count / 2];
}

/* The next batch, after one that took so long. The median of the last ones sizes it: one during which others
 * had the CPU looks as if a unit took milliseconds. */
static uint64_t next_batch(const struct meter *meter, int64_t took, const double *each, int count) {
    uint64_t batch = meter->state->record.batch;
    if (meter->own)
        return 1;
    if (took < STEP_LEAST && batch < MOST_UNITS)
        return batch * 2 < MOST_UNITS ? batch * 2 : MOST_UNITS;
    uint64_t wanted = batch_for(median(each, count), meter->clock_ns);
    return wanted > meter->form->batch ? wanted : meter->form->batch;
}

/* Runs until the batch is sized and everybody is warm. *unit gets the ns of a unit with all that is around
 * it.
 */
static int warm_up(struct meter *meter, double *unit) {
    struct probing_record *record = &meter->state->record;
    double each[LEAST_WARM_BATCHES];
    int64_t began = clock_now(), until = began + smaller(WARMUP_MOST, meter->plan->budget / 4);
    int said = 0;
    record->batch = 1;
    for (int i = 0; !said || atomic_load(&meter->arena->warm) < meter->arena->workers; i++) {
        int64_t took = batch(meter, record->batch);
        if (took < 0)
            return (int)took;
        each[i % LEAST_WARM_BATCHES] = (double)took / (double)record->batch;
        record->batch = next_batch(meter, took, each, i < LEAST_WARM_BATCHES ? i + 1 : LEAST_WARM_BATCHES);
        if (!said && i >= LEAST_WARM_BATCHES && clock_now() >= until) {
            atomic_fetch_add(&meter->arena->warm, 1);
            said = 1;
        }
    }
    *unit = (double)(clock_now() - began) / (double)record->units;
    return 0;
}

/* So that what is kept is spread over the whole measured part. */
static uint64_t stride_for(const struct meter *meter, double unit) {
    const struct probing_plan *plan = meter->plan;
    double each = (double)meter->state->record.batch;
    double batches =
        plan->iterations ? (double)plan->iterations / each : (double)plan->budget / (each * unit);
    double wanted = batches * 1.2 / (double)plan->capacity;
    return wanted < 1 ? 1 : (uint64_t)wanted + 1;
}

/* ns for fixed work, the least of a few tries: whether the CPU is as fast as in other launches. Half
 * arithmetic and half system calls, as a neighbour on the host can slow down the one and spare the other. */
static double speed(void) {
    int64_t least = INT64_MAX;
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < SPEED_TRIES; i++) {
        int64_t start = clock_now();
        for (int turn = 0; turn < SPEED_TURNS; turn++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            __asm__ volatile("" : "+r"(x));
        }
        for (int turn = 0; turn < SPEED_CALLS; turn++)
            syscall(SYS_getppid);
        least = smaller(least, clock_now() - start);
    }
    return (double)least;
}

static int measure(struct meter *meter, double unit) {
    const struct probing_plan *plan = meter->plan;
    struct arena *arena = meter->arena;
    struct probing_record *record = &meter->state->record;
    uint64_t turn = 0, had = record->units;
    int enough = 0;
    if (plan->iterations && record->batch > plan->iterations)
        record->batch = plan->iterations;
    record->stride = stride_for(meter, unit);
    record->speed_before = speed();
    record->cpu_first = meter->cpu;
    record->began = clock_now();
    while (!enough || atomic_load(&arena->measured) < arena->workers) {
        uint64_t left = plan->iterations ? plan->iterations - (record->units - had) : UINT64_MAX;
        uint64_t count = !enough && left < record->batch ? left : record->batch;
        int64_t took = batch(meter, count);
        if (took < 0)
            return (int)took;
        if (enough)
            continue;
        /* A last batch that is shorter bears more of the clock than the others. */
        if (turn++ % record->stride == 0 && count == record->batch && !atomic_load(&arena->measured) &&
            record->count < plan->capacity)
            record->sample[record->count++] = (double)took / (double)count;
        record->measured = record->units - had;
        record->ended = clock_now();
        enough = plan->iterations ? record->measured >= plan->iterations
                                  : record->ended - record->began >= plan->budget;
        if (enough && atomic_fetch_add(&arena->measured, 1) + 1 == arena->workers)
            atomic_store(&arena->finished, record->ended);
        if (enough) /* from now on nobody keeps samples, which this end's rest would spoil */
            record->speed_after = speed();
    }
    record->cpu_last = meter->cpu;
    return 0;
}

static int work(struct meter *meter) {
    double unit = 0;
    int rc = warm_up(meter, &unit);
    if (!rc)
        rc = measure(meter, unit);
    /* Also after a failure: the other end may wait for it. */
    atomic_store(meter->me->stop, 1);
    if (!rc && !meter->form->alike && meter->form->ends > 1) {
        int64_t last = meter->plan->ops->work(meter->me, 1);
        meter->state->record.units++;
        rc = last < 0 ? (int)last : 0;
    }
    return rc;
}

static int serve(struct meter *meter) {
    struct probing_record *record = &meter->state->record;
    record->cpu_first = sched_getcpu();
    int rc = meter->plan->ops->serve(meter->me);
    record->cpu_last = sched_getcpu();
    record->migrations = record->cpu_first != record->cpu_last;
    return rc;
}

/* From the release on. */
static int live(struct meter *meter) {
    struct probing_record *record = &meter->state->record;
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    int64_t used = clock_thread();
    int rc = meter->me->end && !meter->form->alike ? serve(meter) : work(meter);
    record->busy_ns = clock_thread() - used;
    getrusage(RUSAGE_THREAD, &after);
    record->voluntary = (uint64_t)(after.ru_nvcsw - before.ru_nvcsw);
    record->involuntary = (uint64_t)(after.ru_nivcsw - before.ru_nivcsw);
    return rc;
}

static int open_in_order(const struct probing_plan *plan, struct group *group, struct probe_end *me,
                         size_t shared) {
    int rc = 0;
    if (me->end) {
        while (!atomic_load(&group->opened.open))
            futex(&group->opened.open, FUTEX_WAIT, 0);
    } else if (shared) {
        memset(group->shared, 0, shared);
    }
    if (plan->ops->open)
        rc = plan->ops->open(me);
    if (!me->end)
        pass(&group->opened, 1);
    return rc;
}

static void complain(struct arena *arena, const struct probe_end *me, const char *what, int rc) {
    int none = 0;
    if (atomic_compare_exchange_strong(&arena->failed, &none, -rc))
        snprintf(arena->message, sizeof(arena->message), "end %d of pair %d %s: %s", me->end, me->pair, what,
                 me->why ? me->why : strerror(-rc));
}

int probing_end(const struct probing_plan *plan, const struct probe_form *form, struct arena *arena, int pair,
                int end, const int fd[PROBE_FDS]) {
    int ends = form->ends;
    const struct probe_ops *ops = plan->ops;
    struct group *group = &arena->group[pair];
    struct end_state *state = arena_end(arena, ends, pair, end);
    struct probe_identity identity[PROBING_MOST_CPUS];
    int total = plan->pairs * ends;
    struct probe_end me = {
        .config = plan->config,
        .processes = plan->processes,
        .pair = pair,
        .pairs = plan->pairs,
        .end = end,
        .ends = ends,
        .cpu = plan->bound ? plan->cpu[(pair * ends + end) % plan->cpus] : -1,
        .size = plan->size,
        .shared = group->shared,
        .identity = identity,
        .stop = &group->stop,
        .notes = state->record.notes,
    };
    memcpy(me.fd, fd, sizeof(me.fd));
    state->identity = (struct probe_identity){getpid(), gettid()};
    int rc = bind(plan, &me);
    if (rc)
        complain(arena, &me, "cannot be bound to its CPU", rc);
    pass(&arena->bound, total);
    for (int i = 0; i < ends; i++)
        identity[i] = arena_end(arena, ends, pair, i)->identity;
    if (!rc && (rc = open_in_order(plan, group, &me, form->shared)))
        complain(arena, &me, "cannot begin", rc);
    atomic_fetch_add(&state->progress, 1);
    pass(&arena->ready, total);
    int64_t none = 0;
    atomic_compare_exchange_strong(&arena->released, &none, clock_now());
    if (!atomic_load(&arena->failed)) {
        struct meter meter = {plan, form, arena, state, &me, probe_clock_cost(), sched_getcpu(), 0};
        rc = live(&meter);
        if (rc)
            complain(arena, &me, "failed", rc);
    }
    if (ops->close)
        ops->close(&me);
    state->record.sent = me.sent;
    state->record.received = me.received;
    atomic_store(&state->done, 1);
    if (atomic_fetch_sub(&arena->left, 1) == 1)
        futex(&arena->left, FUTEX_WAKE, 1);
    return rc;
}
