/* One readiness call over idle descriptors and one that is ready, without sleeping: what a turn of an event
 * loop costs before any event is handled. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"call", KNOB_CHOICE, "epoll", "select|epoll", "", "the readiness call"},
    {"descriptors", KNOB_INT, "1", "1:512", "descriptors", "how many it watches, one of them ready"},
    {0},
};

enum { BATCH = 100, MOST = 512 };

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
    struct epoll_event events[256];
    return epoll_wait(set->epoll, events, 256, 0);
}

static void unmake(struct set *set) {
    for (long i = 0; i < set->count; i++)
        close(set->fd[i]);
    if (set->epoll >= 0)
        close(set->epoll);
}

static int make(struct set *set, long count) {
    FD_ZERO(&set->watched);
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll < 0)
        return -errno;
    for (; set->count < count; set->count++) {
        int fd = eventfd(set->count == 0, EFD_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN};
        if (fd < 0 || fd >= FD_SETSIZE || epoll_ctl(set->epoll, EPOLL_CTL_ADD, fd, &event)) {
            int rc = fd >= FD_SETSIZE ? -EMFILE : -errno;
            if (fd >= 0)
                close(fd);
            return rc;
        }
        set->fd[set->count] = fd;
        FD_SET(fd, &set->watched);
        set->highest = fd > set->highest ? fd : set->highest;
    }
    return 0;
}

static int run(const struct config *config, int64_t budget_ns, double *samples, size_t capacity,
               size_t *count) {
    struct set set = {.epoll = -1};
    int (*call)(struct set *) = config_is(config, "call", "select") ? call_select : call_epoll;
    int rc = make(&set, config_int(config, "descriptors"));
    int64_t until = clock_now() + budget_ns;
    for (*count = 0; !rc && *count < capacity && clock_now() < until; (*count)++) {
        int64_t start = clock_now();
        for (int i = 0; i < BATCH && !rc; i++)
            if (call(&set) != 1)
                rc = -EIO;
        samples[*count] = (double)(clock_now() - start) / BATCH;
    }
    unmake(&set);
    return rc;
}

static const struct probe_ops readiness = {
    .name = "readiness",
    .summary = "one call that asks which descriptors are ready, none to wait for",
    .unit_of_work = "call",
    .knobs = knobs,
    .run = run,
};
REGISTER_PROBE(readiness);
