/* How an accepting thread waits: for connections alone (acceptor_next), or also for those that are idle
 * (acceptor_wait), with the thread's counters.
 *
 * A wait that took longer than 5 µs is counted as a sleep, and its time as waiting for work: two looks at the
 * clock cost 0.05 µs, where asking first with a zero time-out would add the very system call whose cost is to
 * be measured.
 *
 * When descriptors or memory run out, waiting connections stay where they are for 10 ms, as asking for them
 * again would fail at once; each failure counts as an error.
 *
 * One thread waits and accepts; acceptor_arm and acceptor_wake are safe from any thread. 0 or a negated
 * errno. */
#ifndef KNEEPOINT_ACCEPTOR_H
#define KNEEPOINT_ACCEPTOR_H

#include "counters.h"
#include <sys/epoll.h>

struct acceptor {
    int listener;         /* the caller's */
    int wake;             /* an eventfd */
    int epoll;            /* −1 when only connections are waited for */
    int64_t paused_until; /* 0: the listener is watched */
};

/* `watching`: nonzero to use acceptor_wait and the functions that go with it. */
int acceptor_create(struct acceptor *acceptor, int listener, int watching);
void acceptor_destroy(struct acceptor *acceptor);

/* Ends the present wait and all later ones with -ECANCELED. */
int acceptor_wake(struct acceptor *acceptor);

/* Sleeps until a connection comes and gives its descriptor; -ECANCELED after acceptor_wake. */
int acceptor_next(struct acceptor *acceptor, struct counter_block *me);

/* Leaves waiting connections alone for 10 ms, or until acceptor_resume (which is for acceptor_wait). */
void acceptor_pause(struct acceptor *acceptor);
void acceptor_resume(struct acceptor *acceptor);

/* Sleeps until something is ready and gives how many events it wrote: data.ptr is NULL when connections wait
 * to be taken, otherwise the tag of a connection, which is disarmed by that. May give 0. -ECANCELED after
 * acceptor_wake. */
int acceptor_wait(struct acceptor *acceptor, struct epoll_event *events, int capacity,
                  struct counter_block *me);

/* A connection that waits; -EAGAIN when there is none or none can be taken now. */
int acceptor_take(struct acceptor *acceptor, struct counter_block *me);

/* Watches fd for one event, the first time and every further time. */
int acceptor_add(struct acceptor *acceptor, int fd, uint32_t events, void *tag);
int acceptor_arm(struct acceptor *acceptor, int fd, uint32_t events, void *tag);

#endif
