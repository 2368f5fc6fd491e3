/* A byte, or more, there and back through two pipes. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "pingpong", "pingpong|calls", "",
     "between two ends; or the same calls by one end alone, which never waits"},
    {0},
};

enum { THERE_READ, THERE_WRITE, BACK_READ, BACK_WRITE };

static int alone(const struct config *config) {
    return config_is(config, "variant", "calls");
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (alone(config))
        *form = (struct probe_form){.unit = "write and read, twice", .ends = 1, .sized = 1};
}

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)config, (void)pairs, (void)processes, (void)message, (void)room;
    *size = *size < 1 ? 1 : *size > 65536 ? 65536 : *size; /* what a pipe holds */
    return 0;
}

static int prepare(const struct config *config, size_t size, int fd[PROBE_FDS]) {
    (void)config, (void)size;
    return pipe2(&fd[THERE_READ], O_CLOEXEC) || pipe2(&fd[BACK_READ], O_CLOEXEC) ? -errno : 0;
}

static int open_end(struct probe_end *me) {
    me->own = calloc(1, me->size);
    return me->own ? 0 : -ENOMEM;
}

static int give(struct probe_end *me, int fd) {
    for (size_t done = 0; done < me->size;) {
        ssize_t got = write(fd, (char *)me->own + done, me->size - done);
        if (got < 0 && errno != EINTR)
            return -errno;
        done += got > 0 ? (size_t)got : 0;
    }
    me->sent++;
    return 0;
}

static int take(struct probe_end *me, int fd) {
    for (size_t done = 0; done < me->size;) {
        ssize_t got = read(fd, (char *)me->own + done, me->size - done);
        if (!got)
            return -EPIPE;
        if (got < 0 && errno != EINTR)
            return -errno;
        done += got > 0 ? (size_t)got : 0;
    }
    me->received++;
    return 0;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int back = alone(me->config) ? THERE_READ : BACK_READ, again = alone(me->config), rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = give(me, me->fd[THERE_WRITE]);
        rc = rc ? rc : take(me, me->fd[back]);
        if (again) {
            rc = rc ? rc : give(me, me->fd[BACK_WRITE]);
            rc = rc ? rc : take(me, me->fd[BACK_READ]);
        }
    }
    return rc;
}

static int serve(struct probe_end *me) {
    int rc = 0, last = 0;
    while (!rc && !last) {
        rc = take(me, me->fd[THERE_READ]);
        last = atomic_load(me->stop);
        rc = rc ? rc : give(me, me->fd[BACK_WRITE]);
    }
    return rc;
}

static void close_end(struct probe_end *me) {
    free(me->own);
}

static const struct probe_ops pipe_probe = {
    .name = "pipe",
    .summary = "a message there and back through two pipes",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2, .sized = 1},
    .shape = shape,
    .check = check,
    .prepare = prepare,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(pipe_probe);
