/* A probe that goes wrong in the way that it is told to, to try the engine that runs probes. */
#define _GNU_SOURCE
#include "core/clock.h"
#include "core/probe.h"
#include "core/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "none",
     "none|drop|exit|leave|crash|prepare|open|dawdle|work|serve|stay|stay_closed|alike|burn|own|uneven", "",
     "what goes wrong"},
    {"ends", KNOB_INT, "2", "1:64", "", "of alike"},
    {0},
};

enum { THERE_READ, THERE_WRITE, BACK_READ, BACK_WRITE, SOUND_UNITS = 100 };

static int is(const struct config *config, const char *fault) {
    return config_is(config, "variant", fault);
}

static int alone(const struct config *config) {
    return is(config, "alike") || is(config, "burn") || is(config, "own") || is(config, "uneven");
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (is(config, "alike"))
        *form = (struct probe_form){.unit = "turn", .ends = (int)config_int(config, "ends"), .alike = 1};
    else if (alone(config))
        *form = (struct probe_form){.unit = "turn", .ends = 1};
}

static int prepare(const struct config *config, size_t size, int fd[PROBE_FDS]) {
    (void)size;
    if (is(config, "prepare"))
        return -ENOSPC;
    if (alone(config))
        return 0;
    return pipe2(&fd[THERE_READ], O_CLOEXEC) || pipe2(&fd[BACK_READ], O_CLOEXEC) ? -errno : 0;
}

static int open_end(struct probe_end *me) {
    if (me->end == 1 && is(me->config, "dawdle")) /* longer than a pair may stand still at work */
        poll(NULL, 0, 2000);
    return me->end == 1 && is(me->config, "open") ? -ENOSPC : 0;
}

static void burn(int64_t ns) {
    for (int64_t until = clock_now() + ns; clock_now() < until;)
        ;
}

static int64_t turn(struct probe_end *me) {
    if (is(me->config, "own")) { /* most of a unit is not what is timed */
        burn(20000);
        return 500;
    }
    if (is(me->config, "uneven")) /* a short unit, and now and then one that takes as long as thousands */
        burn(me->sent++ % 1000 ? 0 : 1000000);
    else
        sched_yield();
    return 0;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    char byte = 0;
    int64_t own = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (alone(me->config)) {
            own += turn(me);
            continue;
        }
        if (is(me->config, "work") && me->sent == SOUND_UNITS)
            return -EIO;
        if (write(me->fd[THERE_WRITE], &byte, 1) != 1 || read(me->fd[BACK_READ], &byte, 1) != 1)
            return -errno;
        me->sent++;
    }
    return own;
}

/* After some sound answers. */
static int go_wrong(struct probe_end *me) {
    if (is(me->config, "exit"))
        _exit(3);
    if (is(me->config, "leave")) {
        kill(me->identity[0].pid, SIGKILL);
        _exit(0);
    }
    if (is(me->config, "crash"))
        raise(SIGSEGV);
    return is(me->config, "serve") ? -EPROTO : 0;
}

static int serve(struct probe_end *me) {
    char byte;
    int rc = 0, last = 0;
    for (int i = 0; !rc && !last; i++) {
        if (read(me->fd[THERE_READ], &byte, 1) != 1)
            return -errno;
        if (i == SOUND_UNITS)
            rc = go_wrong(me);
        last = atomic_load(me->stop);
        if ((i != SOUND_UNITS || !is(me->config, "drop")) && write(me->fd[BACK_WRITE], &byte, 1) != 1)
            return -errno;
    }
    while (is(me->config, "stay"))
        pause();
    return rc;
}

static void close_end(struct probe_end *me) {
    probe_note(me, "nothing_ns", NAN);
    probe_note(me, "answer", 42);
    while (!me->end && is(me->config, "stay_closed"))
        pause();
}

static const struct probe_ops faulty_probe = {
    .name = "faulty",
    .summary = "goes wrong as it is told to",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2},
    .shape = shape,
    .prepare = prepare,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(faulty_probe);
