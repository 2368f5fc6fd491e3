/* One event loop by select: see core/eventloop.h.
 *
 * select changes the sets that it is given, so each call works on copies, as wide as the highest descriptor.
 * A descriptor that it cannot hold is refused. */
#include "../core/eventloop.h"
#include "../core/registry.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/select.h>

static const struct knob knobs[] = {{0}};

struct set {
    fd_set reading, writing; /* watched */
    fd_set ready, writable;  /* found by the last call */
    int highest;
    void *tag[FD_SETSIZE]; /* by descriptor; NULL: not watched */
};

static int create_set(void **out) {
    struct set *set = calloc(1, sizeof(*set));
    if (!set)
        return -ENOMEM;
    *out = set;
    return 0;
}

static int change(void *self, int fd, void *tag, short events) {
    (void)tag;
    struct set *set = self;
    FD_CLR(fd, &set->reading);
    FD_CLR(fd, &set->writing);
    if (events)
        FD_SET(fd, events == POLLIN ? &set->reading : &set->writing);
    return 0;
}

static int add(void *self, int fd, void *tag, short events) {
    struct set *set = self;
    if (fd >= FD_SETSIZE)
        return -EMFILE;
    set->tag[fd] = tag;
    if (fd > set->highest)
        set->highest = fd;
    return change(set, fd, tag, events);
}

static void forget(void *self, int fd) {
    struct set *set = self;
    change(set, fd, NULL, 0);
    set->tag[fd] = NULL;
    while (set->highest && !set->tag[set->highest])
        set->highest--;
}

static int wait(void *self, int timeout) {
    struct set *set = self;
    struct timeval time = {timeout / 1000, timeout % 1000 * 1000};
    set->ready = set->reading;
    set->writable = set->writing;
    return select(set->highest + 1, &set->ready, &set->writable, NULL, timeout < 0 ? NULL : &time);
}

/* From the highest down: a descriptor that was closed and is already in use again lies behind. */
static void visit(void *self, int count, struct eventloop *loop) {
    struct set *set = self;
    for (int fd = set->highest; count && fd >= 0; fd--)
        if (FD_ISSET(fd, &set->ready) || FD_ISSET(fd, &set->writable)) {
            count--;
            eventloop_ready(loop, set->tag[fd]);
        }
}

static const struct readiness calls = {
    .create = create_set,
    .destroy = free,
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

static const struct server_ops select_ops = {
    .name = "select",
    .summary = "one event loop that waits by select",
    .knobs = knobs,
    .max_connections = FD_SETSIZE - 16,
    .threads = eventloop_threads,
    .create = create,
    .start = eventloop_start,
    .stop = eventloop_stop,
    .destroy = eventloop_destroy,
};
REGISTER_SERVER(select_ops);
