/* What a connection costs that carries nothing: made, accepted, closed by both.
 *
 * The one that accepts closes first, and the one that connected waits for that: so no connection waits in the
 * backlog, and the address that lingers after an orderly close is the listener's, of which there is one, and
 * not one of the 28,000 ports that connections are made from. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"
#include "../core/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTENER, BACKLOG = 16 };

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "connect", "connect|calls", "",
     "between two ends; or the same calls by one end alone, which never waits"},
    {"close", KNOB_CHOICE, "reset", "reset|orderly", "",
     "the one that connected resets what the other has closed, with a call more; or both close, and the "
     "kernel keeps the address for a minute"},
    {0},
};

/* The settings, looked up once. */
struct own {
    struct sockaddr_in address;
    int alone, reset;
};

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (config_is(config, "variant", "calls"))
        *form = (struct probe_form){.unit = "connection by one end alone", .ends = 1};
}

static int prepare(const struct config *config, size_t size, int fd[PROBE_FDS]) {
    (void)config, (void)size;
    int listener = sock_listen("127.0.0.1", 0, BACKLOG);
    if (listener < 0)
        return listener;
    fd[LISTENER] = listener;
    return fcntl(listener, F_SETFL, 0) ? -errno : 0; /* accept waits */
}

static int open_end(struct probe_end *me) {
    struct own *own = me->own = malloc(sizeof(*own));
    if (!own)
        return -ENOMEM;
    own->alone = config_is(me->config, "variant", "calls");
    own->reset = config_is(me->config, "close", "reset");
    return sock_address("127.0.0.1", sock_port(me->fd[LISTENER]), &own->address);
}

static int closed(int fd) {
    return close(fd) ? -errno : 0;
}

static int begin(struct probe_end *me) {
    struct own *own = me->own;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&own->address, sizeof(own->address))) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    me->sent++;
    return fd;
}

static int end_after_other(struct probe_end *me, int fd) {
    static const struct linger at_once = {1, 0};
    const struct own *own = me->own;
    char none;
    ssize_t got;
    while ((got = read(fd, &none, 1)) < 0 && errno == EINTR)
        ;
    int rc = got < 0 ? -errno : got ? -EPROTO : 0;
    if (!rc && own->reset && setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)))
        rc = -errno;
    int last = closed(fd);
    return rc ? rc : last;
}

static int answer(struct probe_end *me, int *stopped) {
    int fd;
    while ((fd = accept4(me->fd[LISTENER], NULL, NULL, SOCK_CLOEXEC)) < 0)
        if (errno != EINTR)
            return -errno;
    me->received++;
    *stopped = atomic_load(me->stop); /* before the other end learns of it */
    return closed(fd);
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int rc = 0, alone = ((struct own *)me->own)->alone, ignored;
    for (uint64_t i = 0; i < count && !rc; i++) {
        int fd = begin(me);
        if (fd < 0)
            return fd;
        if (alone && (rc = answer(me, &ignored)))
            close(fd); /* nobody will close it from the other side */
        else
            rc = end_after_other(me, fd);
    }
    return rc;
}

static int serve(struct probe_end *me) {
    int rc = 0, stopped = 0;
    while (!rc && !stopped)
        rc = answer(me, &stopped);
    return rc;
}

static void close_end(struct probe_end *me) {
    free(me->own);
}

static const struct probe_ops accept_probe = {
    .name = "accept",
    .summary = "a connection over loopback made, accepted and closed by both",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "connection", .ends = 2},
    .shape = shape,
    .prepare = prepare,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(accept_probe);
