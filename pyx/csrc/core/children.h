/* Processes that serve, each with one connection at a time, forked by one thread of the server.
 *
 * That thread is the only one to call children_fork, children_reap and children_stop, and it stays until they
 * are gone: the kernel kills them when it ends, whatever ends it. A process keeps the descriptor that it is
 * given, the standard ones and no other. It writes its own block of counters; once it has ended, its forker
 * completes that by what the kernel says it used, so that sums are exact also of one that was killed.
 *
 * Stop: a process that waits for its peer, or for a connection, is killed where it waits. One that works
 * finishes what it has read and then leaves; two seconds later it is killed too, as its peer may never read.
 * Which of the two it is, both sides agree on by `working` and `leaving`: each side sets its own before it
 * looks at the other's. So no process is killed in the middle of its work in time.
 *
 * Functions that return int give 0 or a negated errno. */
#ifndef KNEEPOINT_CHILDREN_H
#define KNEEPOINT_CHILDREN_H

#include "server.h"

#include <stdatomic.h>
#include <sys/types.h>

/* In memory that a process shares with its forker. */
struct child_post {
    _Atomic int working; /* the process's: it may not be killed now */
    _Atomic int leaving; /* the forker's: leave when you do not work */
} __attribute__((aligned(64)));

struct child {
    pid_t pid; /* 0: free */
    int pidfd; /* readable when the process has ended */
    int dismissed;
    struct child_post *post;
    struct counter_block *block; /* kept for the next process of this place */
    struct child *next_free;
};

struct children {
    struct server_env env;
    enum counter_role role;
    void (*serve)(struct children *children, struct child *self, int fd);
    size_t capacity, count;
    struct child *child; /* `capacity` places */
    struct child *free;  /* NULL: all are taken */
    struct child_post *posts;
};

/* `serve`: what a process does with its descriptor; it ends when that returns. */
int children_create(struct children *children, const struct server_env *env, enum counter_role role,
                    size_t capacity, void (*serve)(struct children *children, struct child *self, int fd));

/* After children_stop. */
void children_destroy(struct children *children);

/* Forks a process that serves fd, which is closed here, on failure too. There must be a free place. */
int children_fork(struct children *children, int fd, struct child **out);

/* Takes leave of a process that has ended: completes its counters, and counts it as died (and its connection
 * as broken off) if it was killed or crashed. */
void children_reap(struct children *children, struct child *child);

/* The same for one that is still there, and is killed for it. */
void children_dismiss(struct children *children, struct child *child);

/* Ends and reaps them all. */
void children_stop(struct children *children);

/* For the process. Each returns nonzero when it is to leave: now, if it rests; else after what it does. */
int children_rest(struct child *self); /* before a wait */
int children_work(struct child *self); /* after it */

/* Counts a wait for work that began at `start`: over 5 µs it has slept. */
void children_waited(struct child *self, int64_t start);

/* Serves a connection, which it takes over, with blocking calls until that ends. */
void children_serve(struct children *children, struct child *self, int fd);

#endif
