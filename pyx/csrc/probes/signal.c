/* A signal there and back, and what a burst of signals loses.
 *
 * Every signal used is blocked at both ends before either may send. In the ping-pongs each end answers what
 * it got, so that there is never more than one under way and none can be merged with another. In a burst that
 * is what is looked at: the receiving end keeps the signal blocked until all have been sent. */
#define _GNU_SOURCE
#include "../core/child.h"
#include "../core/clock.h"
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "sigwaitinfo",
     "sigwaitinfo|handler|stop|calls|handler_calls|burst_standard|burst_realtime", "",
     "how the other end gets it: by sigwaitinfo; by a handler in sigsuspend; as a stop that a continue ends; "
     "the calls of the first two by one end alone, which never waits; or blocked, as one of a burst"},
    {"burst", KNOB_INT, "1000", "1:100000", "signals", "signals sent before the receiver looks"},
    {0},
};

enum { BALL = SIGUSR1, TURN = SIGUSR2 }; /* what is played with; in a burst: that it is the other's turn */

struct shared {
    _Atomic uint64_t received; /* of bursts */
    _Atomic uint64_t hops;     /* of the partner that is stopped and continued */
    int cpu;                   /* where it runs; -1: anywhere */
};

struct own {
    const struct variant *variant;
    sigset_t awaited;
    sigset_t burst;   /* the burst's signal alone */
    sigset_t waiting; /* what is blocked while a handler is waited for */
    pid_t partner;
    uint64_t hops;
    int realtime, length; /* of the burst: its kind, its signals */
    uint64_t sent, refused;
    int64_t sending; /* ns of it */
};

struct variant {
    const char *name;
    const char *unit;
    int ends;
    int (*open)(struct probe_end *me);
    int (*take)(struct probe_end *me);
    int64_t (*work)(struct probe_end *me, uint64_t count);
    int (*serve)(struct probe_end *me);
    void (*close)(struct probe_end *me);
};

/* Blocks the signal, and waits for it from now on. */
static int await(struct probe_end *me, int number) {
    struct own *own = me->own;
    sigemptyset(&own->awaited);
    sigaddset(&own->awaited, number);
    return -pthread_sigmask(SIG_BLOCK, &own->awaited, NULL);
}

/* The other end; itself, where there is no other. */
static const struct probe_identity *other(const struct probe_end *me) {
    return &me->identity[me->ends - 1 - me->end];
}

static int give(const struct probe_end *me, int number) {
    const struct probe_identity *to = other(me);
    return (me->processes ? kill(to->pid, number) : tgkill(to->pid, to->tid, number)) ? -errno : 0;
}

/* Threads cannot tell each other apart; and 0 is what a signal between them says when too many are pending.
 */
static int from_other(const struct probe_end *me, pid_t sender) {
    return sender == other(me)->pid || (!me->processes && !sender);
}

static int take(struct probe_end *me) {
    const struct own *own = me->own;
    siginfo_t info;
    int got;
    do
        got = sigwaitinfo(&own->awaited, &info);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : from_other(me, info.si_pid) ? 0 : -EPROTO;
}

/* ---- ping-pong, by sigwaitinfo and by handler ---- */

static _Thread_local volatile sig_atomic_t caught;
static _Thread_local volatile pid_t caught_from;

static void handle(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    caught_from = info->si_pid;
    caught = 1;
}

/* The signal is blocked but in sigsuspend, so that it cannot come in between. */
static int take_by_handler(struct probe_end *me) {
    const struct own *own = me->own;
    while (!caught)
        sigsuspend(&own->waiting);
    caught = 0;
    return from_other(me, caught_from) ? 0 : -EPROTO;
}

static int open_ball(struct probe_end *me) {
    return await(me, BALL);
}

static int open_handler(struct probe_end *me) {
    struct own *own = me->own;
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    int rc = await(me, BALL);
    rc = rc ? rc : -pthread_sigmask(SIG_BLOCK, NULL, &own->waiting);
    sigdelset(&own->waiting, BALL);
    return rc ? rc : sigaction(BALL, &action, NULL) ? -errno : 0;
}

/* One end alone plays both. */
static int64_t play(struct probe_end *me, uint64_t count) {
    const struct own *own = me->own;
    int rc = 0;
    for (uint64_t left = me->ends == 1 ? 2 * count : count; left && !rc; left--) {
        rc = give(me, BALL);
        me->sent += !rc;
        rc = rc ? rc : own->variant->take(me);
        me->received += !rc;
    }
    return rc;
}

static int answer(struct probe_end *me) {
    const struct own *own = me->own;
    int rc = 0, last = 0;
    while (!rc && !last) {
        rc = own->variant->take(me);
        me->received += !rc;
        last = atomic_load(me->stop);
        rc = rc ? rc : give(me, BALL);
        me->sent += !rc;
    }
    return rc;
}

/* ---- stop and continue ----
 *
 * A continue that comes before its stop is lost, so that end 0 must see the stop, which only a parent can
 * wait for: end 0 plays with a child of its own. That runs on end 1's CPU; end 1 sleeps until the end. The
 * continue wakes the waiting parent as well, so that on one CPU a round trip makes four switches. */

static void be_partner(struct shared *shared) {
    pid_t self = getpid();
    kill(self, SIGSTOP); /* when it is continued all ends are open, and shared->cpu is known */
    cpu_set_t set;
    CPU_ZERO(&set);
    if (shared->cpu >= 0) {
        CPU_SET((size_t)shared->cpu, &set);
        if (sched_setaffinity(0, sizeof(set), &set))
            _exit(1);
    }
    for (;;) {
        atomic_fetch_add_explicit(&shared->hops, 1, memory_order_relaxed);
        kill(self, SIGSTOP);
    }
}

static int await_stop(const struct own *own) {
    siginfo_t info;
    int rc;
    do
        rc = waitid(P_PID, (id_t)own->partner, &info, WSTOPPED | WEXITED);
    while (rc && errno == EINTR);
    return rc ? -errno : info.si_code == CLD_STOPPED ? 0 : -ESRCH;
}

static int open_stop(struct probe_end *me) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    if (me->end) {
        shared->cpu = me->cpu;
        return await(me, BALL);
    }
    own->partner = child_fork();
    if (!own->partner)
        be_partner(shared);
    return own->partner < 0 ? -errno : await_stop(own);
}

static int64_t play_stop(struct probe_end *me, uint64_t count) {
    struct own *own = me->own;
    struct shared *shared = me->shared;
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = kill(own->partner, SIGCONT) ? -errno : await_stop(own);
        own->hops++;
        if (!rc && atomic_load_explicit(&shared->hops, memory_order_relaxed) != own->hops)
            rc = -EPROTO;
    }
    return rc || !atomic_load(me->stop) ? rc : give(me, BALL);
}

static void close_stop(struct probe_end *me) {
    const struct own *own = me->own;
    struct rusage used;
    if (own->partner <= 0 || kill(own->partner, SIGKILL) || wait4(own->partner, NULL, 0, &used) < 0)
        return;
    probe_note(me, "partner_voluntary", (double)used.ru_nvcsw);
    probe_note(me, "partner_involuntary", (double)used.ru_nivcsw);
}

/* ---- bursts ---- */

static int open_burst(struct probe_end *me) {
    struct own *own = me->own;
    own->realtime = config_is(me->config, "variant", "burst_realtime");
    own->length = (int)config_int(me->config, "burst");
    sigemptyset(&own->burst);
    sigaddset(&own->burst, own->realtime ? SIGRTMIN : BALL);
    int rc = -pthread_sigmask(SIG_BLOCK, &own->burst, NULL);
    return rc ? rc : await(me, TURN);
}

/* Queued with a value. kill would not do: what is over the limit it leaves out without a word. */
static int queue(const struct probe_end *me, int value) {
    const struct probe_identity *to = other(me);
    siginfo_t info = {.si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    long rc = me->processes ? syscall(SYS_rt_sigqueueinfo, to->pid, SIGRTMIN, &info)
                            : syscall(SYS_rt_tgsigqueueinfo, to->pid, to->tid, SIGRTMIN, &info);
    return rc ? -errno : 0;
}

static int fire(struct probe_end *me) {
    struct own *own = me->own;
    int64_t start = clock_now();
    for (int i = 0; i < own->length; i++) {
        int rc = own->realtime ? queue(me, i) : give(me, BALL);
        if (rc && rc != -EAGAIN)
            return rc;
        own->sent += !rc;
        own->refused += !!rc;
    }
    own->sending += clock_now() - start;
    return 0;
}

static int64_t play_burst(struct probe_end *me, uint64_t count) {
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = fire(me);
        rc = rc ? rc : give(me, TURN);
        rc = rc ? rc : take(me);
    }
    return rc;
}

/* Takes what is pending; it must come in the order in which it was sent. */
static int collect(struct probe_end *me) {
    const struct own *own = me->own;
    struct shared *shared = me->shared;
    static const struct timespec none;
    siginfo_t info;
    for (int last = -1; sigtimedwait(&own->burst, &info, &none) > 0; last = info.si_value.sival_int) {
        if (!from_other(me, info.si_pid) || (own->realtime && info.si_value.sival_int <= last))
            return -EPROTO;
        atomic_fetch_add(&shared->received, 1);
    }
    return errno == EAGAIN ? 0 : -errno;
}

static int answer_burst(struct probe_end *me) {
    int rc = 0, last = 0;
    while (!rc && !last) {
        rc = take(me);
        last = atomic_load(me->stop);
        rc = rc ? rc : collect(me);
        rc = rc ? rc : give(me, TURN);
    }
    return rc;
}

static void close_burst(struct probe_end *me) {
    const struct own *own = me->own;
    const struct shared *shared = me->shared;
    struct rlimit limit;
    if (me->end)
        return;
    uint64_t received = atomic_load(&shared->received);
    probe_note(me, "sent", (double)own->sent);
    probe_note(me, "received", (double)received);
    probe_note(me, "lost", (double)own->sent - (double)received);
    probe_note(me, "refused", (double)own->refused);
    if (own->sent + own->refused)
        probe_note(me, "send_ns", (double)own->sending / (double)(own->sent + own->refused));
    if (own->realtime && !getrlimit(RLIMIT_SIGPENDING, &limit) && limit.rlim_cur != RLIM_INFINITY)
        probe_note(me, "pending_limit", (double)limit.rlim_cur);
}

/* ---- */

static const char round_trip[] = "round trip", alone[] = "signal to itself, twice";
static const char burst[] = "burst sent and collected";

static const struct variant variants[] = {
    {"sigwaitinfo", round_trip, 2, open_ball, take, play, answer, NULL},
    {"handler", round_trip, 2, open_handler, take_by_handler, play, answer, NULL},
    {"stop", round_trip, 2, open_stop, take, play_stop, take, close_stop},
    {"calls", alone, 1, open_ball, take, play, NULL, NULL},
    {"handler_calls", alone, 1, open_handler, take_by_handler, play, NULL, NULL},
    {"burst_standard", burst, 2, open_burst, take, play_burst, answer_burst, close_burst},
    {"burst_realtime", burst, 2, open_burst, take, play_burst, answer_burst, close_burst},
};

static const struct variant *variant_of(const struct config *config) {
    const struct variant *variant = variants;
    while (!config_is(config, "variant", variant->name))
        variant++;
    return variant;
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    const struct variant *variant = variant_of(config);
    *form =
        (struct probe_form){.unit = variant->unit, .ends = variant->ends, .shared = sizeof(struct shared)};
}

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)pairs, (void)size;
    if (processes || !config_is(config, "variant", "stop"))
        return 0;
    snprintf(message, room,
             "variant=stop is for processes: a stop stops every thread of one (--kind process)");
    return -EINVAL;
}

static int open_end(struct probe_end *me) {
    struct own *own = me->own = calloc(1, sizeof(struct own));
    if (!own)
        return -ENOMEM;
    own->variant = variant_of(me->config);
    return own->variant->open(me);
}

static int64_t work(struct probe_end *me, uint64_t count) {
    const struct own *own = me->own;
    return own->variant->work(me, count);
}

static int serve(struct probe_end *me) {
    const struct own *own = me->own;
    return own->variant->serve(me);
}

static void close_end(struct probe_end *me) {
    const struct own *own = me->own;
    if (own && own->variant->close)
        own->variant->close(me);
    free(me->own);
}

static const struct probe_ops signal_probe = {
    .name = "signal",
    .summary = "a signal there and back; stop and continue; what a burst loses",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = round_trip, .ends = 2, .shared = sizeof(struct shared)},
    .shape = shape,
    .check = check,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(signal_probe);
