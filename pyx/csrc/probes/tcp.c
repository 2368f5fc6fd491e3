/* A message there and back over a TCP connection: over loopback, or over a veth pair. */
#define _GNU_SOURCE
#include "../core/netns.h"
#include "../core/probe.h"
#include "../core/registry.h"
#include "../core/sock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BYTES = 65536 };

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "loopback", "loopback|calls|veth", "",
     "over loopback; the same calls by one end alone, which never waits; or between two network namespaces "
     "over a veth pair, which is not a wire"},
    {0},
};

static int alone(const struct config *config) {
    return config_is(config, "variant", "calls");
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (alone(config))
        *form = (struct probe_form){.unit = "send and receive, twice", .ends = 1};
    if (config_is(config, "variant", "veth"))
        form->unit = "round trip over veth, not a wire";
}

static int connect_to(int listener, const char *host, int fd[2]) {
    struct sockaddr_in to;
    int rc = sock_address(host, sock_port(listener), &to), on = 1;
    if (rc || (fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return rc ? rc : -errno;
    if (setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
        connect(fd[0], (struct sockaddr *)&to, sizeof(to)))
        return -errno;
    rc = sock_accept(listener);
    fd[1] = rc < 0 ? -1 : rc;
    return rc < 0 ? rc : 0;
}

static int over_loopback(int fd[2]) {
    int listener = sock_listen("127.0.0.1", 0, 1);
    int rc = listener < 0 ? listener : connect_to(listener, "127.0.0.1", fd);
    if (listener >= 0)
        close(listener);
    return rc;
}

/* A socket stays in the namespace that it was made in. */
static int over_veth(int near, int far, int fd[2]) {
    if (setns(far, CLONE_NEWNET))
        return -errno;
    int listener = sock_listen(NETNS_FAR, 0, 1);
    if (listener < 0 || setns(near, CLONE_NEWNET))
        return listener < 0 ? listener : -errno;
    return connect_to(listener, NETNS_FAR, fd);
}

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)pairs, (void)processes;
    *size = *size < 1 ? 1 : *size > MOST_BYTES ? MOST_BYTES : *size;
    int fd[2];
    if (!config_is(config, "variant", "veth"))
        return 0;
    if (netns_make(over_veth, fd, message, room))
        return -EINVAL;
    close(fd[0]);
    close(fd[1]);
    return 0;
}

static int prepare(const struct config *config, size_t size, int fd[PROBE_FDS]) {
    char message[256];
    (void)size;
    return config_is(config, "variant", "veth") ? netns_make(over_veth, fd, message, sizeof(message))
                                                : over_loopback(fd);
}

static int open_end(struct probe_end *me) {
    me->own = calloc(1, me->size);
    return me->own ? 0 : -ENOMEM;
}

/* What a call moved, or a negated errno; 0 where it would have waited or was interrupted. */
static ssize_t moved(ssize_t got) {
    return got >= 0 ? got : errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static ssize_t send_some(struct probe_end *me, int fd, size_t done, int flags) {
    return moved(send(fd, (char *)me->own + done, me->size - done, flags | MSG_NOSIGNAL));
}

static ssize_t receive_some(struct probe_end *me, int fd, size_t done, int flags) {
    ssize_t got = recv(fd, (char *)me->own + done, me->size - done, flags);
    return got ? moved(got) : -EPIPE;
}

static int give(struct probe_end *me, int fd) {
    for (size_t done = 0; done < me->size;) {
        ssize_t got = send_some(me, fd, done, 0);
        if (got < 0)
            return (int)got;
        done += (size_t)got;
    }
    me->sent++;
    return 0;
}

static int take(struct probe_end *me, int fd) {
    for (size_t done = 0; done < me->size;) {
        ssize_t got = receive_some(me, fd, done, 0);
        if (got < 0)
            return (int)got;
        done += (size_t)got;
    }
    me->received++;
    return 0;
}

/* From one socket to the other by one end. What is sent over loopback arrives before `send` returns, unless
 * it is more than the sockets hold, or the kernel puts it off: then the calls are made again. */
static int across(struct probe_end *me, int from, int to) {
    for (size_t given = 0, taken = 0; taken < me->size;) {
        ssize_t got = given < me->size ? send_some(me, from, given, MSG_DONTWAIT) : 0;
        if (got < 0)
            return (int)got;
        given += (size_t)got;
        got = receive_some(me, to, taken, MSG_DONTWAIT);
        if (got < 0)
            return (int)got;
        taken += (size_t)got;
    }
    me->sent++;
    me->received++;
    return 0;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int rc = 0, by_one = alone(me->config);
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = by_one ? across(me, me->fd[0], me->fd[1]) : give(me, me->fd[0]);
        rc = rc ? rc : by_one ? across(me, me->fd[1], me->fd[0]) : take(me, me->fd[0]);
    }
    return rc;
}

static int serve(struct probe_end *me) {
    int rc = 0, last = 0;
    while (!rc && !last) {
        rc = take(me, me->fd[1]);
        last = atomic_load(me->stop);
        rc = rc ? rc : give(me, me->fd[1]);
    }
    return rc;
}

static void close_end(struct probe_end *me) {
    free(me->own);
}

static const struct probe_ops tcp_probe = {
    .name = "tcp",
    .summary = "a message there and back over a TCP connection",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2},
    .shape = shape,
    .check = check,
    .prepare = prepare,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(tcp_probe);
