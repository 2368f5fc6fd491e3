/* One thread that accepts, reads, works and writes, whatever readiness call it waits by.
 *
 * A server of this kind is a file with a `struct readiness`: the set of descriptors that it watches, and the
 * call that says which of them are ready. All else is here. A server's ops are
 *
 *     create: eventloop_create with its own readiness; threads, start, stop, destroy: those below.
 */
#ifndef KNEEPOINT_EVENTLOOP_H
#define KNEEPOINT_EVENTLOOP_H

#include "server.h"
#include <stdint.h>

struct eventloop;

/* A set of watched descriptors, each with a tag by which the loop knows it. One thread uses it at a time. */
struct readiness {
    int (*create)(void **set);
    void (*destroy)(void *set);

    /* Watches a descriptor for POLLIN or for POLLOUT. Negated errno: it cannot be watched. */
    int (*add)(void *set, int fd, void *tag, short events);

    /* Watches it for the other of the two, or for neither (0). */
    int (*change)(void *set, int fd, void *tag, short events);

    /* Forgets a descriptor that is about to be closed. */
    void (*remove)(void *set, int fd);

    /* Sleeps until something is ready or the time-out (ms, −1: none) has passed. The number of descriptors
     * that are ready; 0 or less: none. */
    int (*wait)(void *set, int timeout);

    /* Calls eventloop_ready with the tag of each of the `count` that wait found. Meanwhile further
     * descriptors may be added, and the one that is just handled may be removed. */
    void (*visit)(void *set, int count, struct eventloop *loop);
};

int eventloop_create(const struct server_env *env, const struct readiness *calls, void **out);
int eventloop_threads(const struct config *config);
int eventloop_start(void *loop);
int eventloop_stop(void *loop);
void eventloop_destroy(void *loop);

/* For `visit`: what the tag stands for is ready. */
void eventloop_ready(struct eventloop *loop, void *tag);

#endif
