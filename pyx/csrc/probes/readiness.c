/* One readiness call over descriptors of which one is ready, without sleeping: what a turn of an event loop
 * costs before any event is handled. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "epoll", "epoll|select", "", "the readiness call"},
    {"descriptors", KNOB_INT, "1", "1:512", "descriptors", "how many it watches, one of them ready"},
    {0},
};

enum { MOST = 512, EVENTS = 256 };

struct set {
    int fd[MOST];
    long count;
    int highest;
    int epoll;
    fd_set watched;
};

static int call_select(struct set *set) {
    fd_set ready = set->watched, none;
    struct timeval now = {0, 0};
    FD_ZERO(&none);
    return select(set->highest + 1, &ready, &none, NULL, &now);
}

static int call_epoll(struct set *set) {
    struct epoll_event events[EVENTS];
    return epoll_wait(set->epoll, events, EVENTS, 0);
}

static int add(struct set *set) {
    struct epoll_event event = {.events = EPOLLIN};
    int fd = eventfd(set->count == 0, EFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    set->fd[set->count++] = fd;
    if (fd >= FD_SETSIZE)
        return -EMFILE;
    FD_SET(fd, &set->watched);
    set->highest = fd > set->highest ? fd : set->highest;
    return epoll_ctl(set->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_end(struct probe_end *me) {
    struct set *set = me->own = calloc(1, sizeof(*set));
    if (!set)
        return -ENOMEM;
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    int rc = set->epoll < 0 ? -errno : 0;
    while (!rc && set->count < config_int(me->config, "descriptors"))
        rc = add(set);
    return rc;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int (*call)(struct set *) = config_is(me->config, "variant", "select") ? call_select : call_epoll;
    for (uint64_t i = 0; i < count; i++)
        if (call(me->own) != 1)
            return -EIO;
    return 0;
}

static void close_end(struct probe_end *me) {
    struct set *set = me->own;
    if (!set)
        return;
    for (long i = 0; i < set->count; i++)
        close(set->fd[i]);
    if (set->epoll >= 0)
        close(set->epoll);
    free(set);
}

static const struct probe_ops readiness = {
    .name = "readiness",
    .summary = "a call that asks which descriptors are ready, one of them is",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "call", .ends = 1},
    .open = open_end,
    .work = work,
    .close = close_end,
};
REGISTER_PROBE(readiness);
