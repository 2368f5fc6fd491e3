/* One event loop by poll: see core/eventloop.h.
 *
 * The array of what is watched is dense: a descriptor that goes leaves its place to the last one. It is
 * visited from its end, so that what moves into a free place has been visited before, and what was added
 * meanwhile waits for the next call. */
#include "../core/eventloop.h"
#include "../core/registry.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

static const struct knob knobs[] = {{0}};

enum { FIRST_ROOM = 64 };

struct set {
    int count;
    int room; /* of each array; more than any descriptor in it, and so than their count */
    struct pollfd *watched;
    void **tag; /* of each that is watched */
    int *place; /* in both, by descriptor */
};

static int create_set(void **out) {
    struct set *set = calloc(1, sizeof(*set));
    if (!set)
        return -ENOMEM;
    *out = set;
    return 0;
}

static void destroy_set(void *self) {
    struct set *set = self;
    free(set->watched);
    free(set->tag);
    free(set->place);
    free(set);
}

static int resize(void *array, int room, size_t size) {
    void *moved = realloc(*(void **)array, (size_t)room * size);
    if (!moved)
        return -ENOMEM;
    *(void **)array = moved;
    return 0;
}

static int make_room(struct set *set, int fd) {
    int room = set->room ? set->room : FIRST_ROOM;
    while (room <= fd)
        room *= 2;
    if (room == set->room)
        return 0;
    if (resize(&set->watched, room, sizeof(*set->watched)) || resize(&set->tag, room, sizeof(*set->tag)) ||
        resize(&set->place, room, sizeof(*set->place)))
        return -ENOMEM;
    set->room = room;
    return 0;
}

static int add(void *self, int fd, void *tag, short events) {
    struct set *set = self;
    int rc = make_room(set, fd);
    if (rc)
        return rc;
    set->watched[set->count] = (struct pollfd){.fd = fd, .events = events};
    set->tag[set->count] = tag;
    set->place[fd] = set->count++;
    return 0;
}

static int change(void *self, int fd, void *tag, short events) {
    (void)tag;
    struct set *set = self;
    set->watched[set->place[fd]].events = events;
    return 0;
}

static void forget(void *self, int fd) {
    struct set *set = self;
    int place = set->place[fd], last = --set->count;
    set->watched[place] = set->watched[last];
    set->tag[place] = set->tag[last];
    set->place[set->watched[place].fd] = place;
}

static int wait(void *self, int timeout) {
    struct set *set = self;
    return poll(set->watched, (nfds_t)set->count, timeout);
}

static void visit(void *self, int count, struct eventloop *loop) {
    struct set *set = self;
    for (int i = set->count - 1; count && i >= 0; i--)
        if (set->watched[i].revents) {
            count--;
            eventloop_ready(loop, set->tag[i]);
        }
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

static const struct server_ops poll_ops = {
    .name = "poll",
    .summary = "one event loop that waits by poll",
    .knobs = knobs,
    .max_connections = 0,
    .threads = eventloop_threads,
    .create = create,
    .start = eventloop_start,
    .stop = eventloop_stop,
    .destroy = eventloop_destroy,
};
REGISTER_SERVER(poll_ops);
