/* What it takes to wake an end that sleeps in a futex, and until it runs.
 *
 * `pingpong`: two ends wake each other in turn. On one CPU a hop is two system calls and a switch; on two it
 * ends the other CPU's rest as well. `idle` and `busy` take that apart: end 0 never sleeps but polls, so that
 * only the sleeper's side is waited for, one way.
 *
 * `idle`: the sleeper's CPU has nothing else to do, and has rested for `gap`: the deeper its rest, the longer
 * the way out. `busy`: another process computes on the sleeper's CPU. What follows then is a decision of the
 * scheduler. With burner=other the two are equals: a sleeper that has had less than its share pre-empts at
 * once, one that has had its share waits until the other's slice is over, which may take milliseconds, so
 * times come in two heaps. That is what a woken worker meets on a loaded server. With burner=idle
 * (SCHED_IDLE) the sleeper always pre-empts: the floor, an interrupt and a switch without a way out of halt.
 */
#define _GNU_SOURCE
#include "../core/child.h"
#include "../core/clock.h"
#include "../core/registry.h"
#include "figure.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "pingpong", "pingpong|calls|idle|busy", "",
     "two ends in turn; the same calls by one end alone; one way to a sleeper on an idle CPU; on a busy one"},
    {"gap", KNOB_INT, "200", "0:100000", "us", "how long the sleeper is left asleep, with idle and busy"},
    {"burner", KNOB_CHOICE, "other", "other|idle", "",
     "with busy: what computes on the sleeper's CPU is its equal, or of the class that runs only else"},
    {0},
};

enum form { PINGPONG, CALLS, ONE_WAY };

struct shared {
    alignas(PROBE_APART) _Atomic uint32_t word; /* counts the messages */
    alignas(PROBE_APART) _Atomic uint32_t answered;
    int64_t ran; /* when the sleeper did */
    int cpu;     /* of end 0 */
};

struct own {
    enum form form;
    int private; /* FUTEX_PRIVATE_FLAG, or 0 between processes */
    uint32_t seen;
    int64_t gap;
    pid_t burner;
    uint64_t missed;
    struct figure waker;
};

static enum form form_of(const struct config *config) {
    return config_is(config, "variant", "pingpong") ? PINGPONG
           : config_is(config, "variant", "calls")  ? CALLS
                                                    : ONE_WAY;
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (form_of(config) == CALLS)
        *form =
            (struct probe_form){.unit = "wake and wait, twice", .ends = 1, .shared = sizeof(struct shared)};
    else if (form_of(config) == ONE_WAY)
        *form =
            (struct probe_form){.unit = "wake-up", .ends = 2, .spins = 1, .shared = sizeof(struct shared)};
}

/* Burns the CPU that the calling end is bound to, until that end is gone. */
static pid_t start_burner(int idle) {
    pid_t pid = child_fork();
    if (pid)
        return pid;
    if (idle && sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}))
        _exit(1);
    for (;;)
        __asm__ volatile("");
}

static int open_end(struct probe_end *me) {
    struct shared *shared = me->shared;
    struct own *own = me->own = calloc(1, sizeof(*own));
    if (!own)
        return -ENOMEM;
    own->form = form_of(me->config);
    own->private = me->processes ? 0 : FUTEX_PRIVATE_FLAG;
    own->gap = config_int(me->config, "gap") * 1000;
    if (own->form != ONE_WAY)
        return 0;
    if (!me->end)
        shared->cpu = me->cpu;
    if (me->cpu < 0 || (me->end && me->cpu == shared->cpu)) { /* or the waker is in the way */
        me->why = "each end must be bound to a CPU of its own";
        return -EINVAL;
    }
    if (me->end && config_is(me->config, "variant", "busy"))
        own->burner = start_burner(config_is(me->config, "burner", "idle"));
    return own->burner < 0 ? -errno : 0;
}

static long futex(const struct own *own, struct shared *shared, int operation, uint32_t value) {
    return syscall(SYS_futex, &shared->word, operation | own->private, value, NULL, NULL, 0);
}

/* Sends the next message. Gives how many slept for it. */
static long give(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    atomic_store(&shared->word, ++own->seen);
    me->sent++;
    return futex(own, shared, FUTEX_WAKE, 1);
}

/* Waits for the next message. 0 or a negated errno. */
static int take(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    uint32_t found;
    do /* at least one call, even where the message is there: a hop is always the same calls */
        if (futex(own, shared, FUTEX_WAIT, own->seen) && errno != EAGAIN && errno != EINTR)
            return -errno;
    while ((found = atomic_load(&shared->word)) == own->seen);
    me->received++;
    return found == ++own->seen ? 0 : -EPROTO;
}

static int call_alone(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    for (int hop = 0; hop < 2; hop++) {
        if (give(me))
            return -EPROTO;
        if (!futex(own, shared, FUTEX_WAIT, own->seen - 1) || errno != EAGAIN)
            return -EPROTO;
        me->received++;
    }
    return 0;
}

static void poll_until(int64_t then) {
    while (clock_now() < then)
        ;
}

/* Leaves the other end asleep for the gap, and wakes it. Gives the ns until it ran. An end that was not yet
 * asleep is left alone for longer the next time. */
static int64_t wake(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    for (int64_t more = 0;; more += 1000) {
        poll_until(clock_now() + own->gap + more);
        int64_t start = clock_now();
        long woken = give(me);
        int64_t took = clock_now() - start;
        while (atomic_load_explicit(&shared->answered, memory_order_acquire) != own->seen)
            ;
        if (woken < 0)
            return -EPROTO;
        if (woken || atomic_load(me->stop)) { /* it leaves at the stop, asleep or not */
            figure_add(&own->waker, (double)took);
            return shared->ran > start ? shared->ran - start : 1;
        }
        own->missed++;
    }
}

static int64_t work(struct probe_end *me, uint64_t count) {
    enum form form = ((struct own *)me->own)->form;
    int64_t rc = 0, total = 0;
    for (uint64_t i = 0; i < count && rc >= 0; i++) {
        if (form == ONE_WAY)
            total += rc = wake(me);
        else if (form == CALLS)
            rc = call_alone(me);
        else
            rc = give(me) < 0 ? -EPROTO : take(me);
    }
    return rc < 0 ? rc : total;
}

static int serve(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    int64_t used = clock_thread();
    int rc = 0;
    for (int last = 0; !rc && !last;) {
        rc = take(me);
        int64_t ran = clock_now();
        last = atomic_load(me->stop);
        if (own->form == ONE_WAY) {
            shared->ran = ran;
            atomic_store_explicit(&shared->answered, own->seen, memory_order_release);
        } else if (!rc && give(me) < 0) {
            rc = -EPROTO;
        }
    }
    if (own->form == ONE_WAY)
        probe_note(me, "sleeper_cpu_ns", (double)(clock_thread() - used) / (double)me->received);
    if (own->burner && waitpid(own->burner, NULL, WNOHANG)) {
        own->burner = 0; /* it is gone: the CPU was not busy all the time */
        rc = -ESRCH;
    }
    return rc;
}

static void close_end(struct probe_end *me) {
    struct own *own = me->own;
    if (!own)
        return;
    if (own->form == ONE_WAY && !me->end) {
        figure_note(&own->waker, me, "waker_ns"); /* with one reading of the clock */
        probe_note(me, "missed", (double)own->missed);
    }
    if (own->burner > 0) {
        struct rusage used;
        kill(own->burner, SIGKILL);
        if (wait4(own->burner, NULL, 0, &used) > 0)
            probe_note(me, "burner_cpu_ns",
                       (double)used.ru_utime.tv_sec * 1e9 + (double)used.ru_utime.tv_usec * 1e3);
    }
    free(own);
}

static const struct probe_ops wakeup = {
    .name = "wakeup",
    .summary = "two ends that wake each other through a futex",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2, .shared = sizeof(struct shared)},
    .shape = shape,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(wakeup);
