/* A linked list of tasks under its own lock: put at the tail, taken at the head.
 *
 * Tasks are linked through themselves, so nothing is allocated; whoever puts a task keeps it alive until it
 * has run. Every function but create and destroy is safe from any thread and holds the queue's lock only,
 * never two at once. `me` is the caller's own block: lock_waits and lock_wait_ns are counted when the lock is
 * found held. */
#ifndef KNEEPOINT_TASKQUEUE_H
#define KNEEPOINT_TASKQUEUE_H

#include "counters.h"
#include <pthread.h>

struct task {
    struct task *next;
    void *job;      /* what the task is part of */
    uint32_t index; /* which part */
};

/* Aligned so that two queues never share a cache line. */
struct taskqueue {
    pthread_mutex_t lock;
    struct task *first, *last; /* under lock; last is meaningless while first is NULL */
    struct counter_block
        *gauge;             /* whose queue_depth and queue_peak tell the depth; under lock; NULL: nobody's */
    _Atomic uint32_t depth; /* written under lock */
} __attribute__((aligned(64)));

int taskqueue_create(struct taskqueue *queue);
void taskqueue_destroy(struct taskqueue *queue);

/* Shows the depth in this block from now on. */
void taskqueue_show(struct taskqueue *queue, struct counter_block *gauge);

/* Appends one task; the depth that this made. */
uint32_t taskqueue_put(struct taskqueue *queue, struct task *task, struct counter_block *me);

/* Appends a chain, first … last linked by next, of `count` tasks; the depth that this made. */
uint32_t taskqueue_put_chain(struct taskqueue *queue, struct task *first, struct task *last, uint32_t count,
                             struct counter_block *me);

/* The oldest task, or NULL. */
struct task *taskqueue_take(struct taskqueue *queue, struct counter_block *me);

/* Takes the older half, rounded down, as a chain; the number of tasks taken, 0 when fewer than two are there.
 */
uint32_t taskqueue_take_half(struct taskqueue *queue, struct task **first, struct task **last,
                             struct counter_block *me);

/* The depth without the lock: in one order, seen alike by all threads, with every other sequentially
 * consistent access. */
static inline uint32_t taskqueue_depth(struct taskqueue *queue) {
    return atomic_load(&queue->depth);
}

#endif
