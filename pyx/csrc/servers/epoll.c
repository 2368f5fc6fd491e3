/* One event loop by epoll: see core/eventloop.h.
 *
 * Level-triggered: a connection is watched from accept to close, and epoll_ctl is called again only when its
 * output has to wait. Edge-triggered, a request cost 3 to 5 % less processor time, but each connection would
 * have to be read until nothing is left, however much its peer sends, or be kept in a list of its own. */
#include "../core/eventloop.h"
#include "../core/registry.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static const struct knob knobs[] = {{0}};

enum { BATCH = 256 };

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT, "events are handed on as they are");

struct set {
    int epoll;
    struct epoll_event ready[BATCH];
};

static int create_set(void **out) {
    struct set *set = malloc(sizeof(*set));
    if (!set)
        return -ENOMEM;
    set->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll < 0) {
        free(set);
        return -errno;
    }
    *out = set;
    return 0;
}

static void destroy_set(void *self) {
    struct set *set = self;
    close(set->epoll);
    free(set);
}

static int control(void *self, int operation, int fd, void *tag, short events) {
    struct set *set = self;
    struct epoll_event event = {.events = (uint32_t)events, .data.ptr = tag};
    return epoll_ctl(set->epoll, operation, fd, &event) ? -errno : 0;
}

static int add(void *set, int fd, void *tag, short events) {
    return control(set, EPOLL_CTL_ADD, fd, tag, events);
}

static int change(void *set, int fd, void *tag, short events) {
    return control(set, EPOLL_CTL_MOD, fd, tag, events);
}

/* Closing the descriptor does it: no other one stands for the same socket. */
static void forget(void *set, int fd) {
    (void)set, (void)fd;
}

static int wait(void *self, int timeout) {
    struct set *set = self;
    return epoll_wait(set->epoll, set->ready, BATCH, timeout);
}

/* Each descriptor comes once in a batch, so no tag names what was freed before its turn. */
static void visit(void *self, int count, struct eventloop *loop) {
    struct set *set = self;
    for (int i = 0; i < count; i++)
        eventloop_ready(loop, set->ready[i].data.ptr);
}

static const struct readiness calls = {
    .create = create_set,
    .destroy = destroy_set,
    .add = add,
    .change = change,
    .remove = forget,
    .wait = wait,
    .visit = visit,
};

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    return eventloop_create(env, &calls, out);
}

static const struct server_ops epoll_ops = {
    .name = "epoll",
    .summary = "one event loop that waits by epoll",
    .knobs = knobs,
    .max_connections = 0,
    .threads = eventloop_threads,
    .create = create,
    .start = eventloop_start,
    .stop = eventloop_stop,
    .destroy = eventloop_destroy,
};
REGISTER_SERVER(epoll_ops);
