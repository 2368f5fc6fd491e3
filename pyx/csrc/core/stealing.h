/* Whom a worker robs that has no task of its own: one rule is one row in stealing.c.
 *
 * A rule looks at the depths of other queues, without locks, and names one. Whoever robs it takes the older
 * half, if it holds two tasks or more; a task by itself is never stolen. */
#ifndef KNEEPOINT_STEALING_H
#define KNEEPOINT_STEALING_H

#include "random.h"
#include "taskqueue.h"

/* The names, as a knob allows them. */
#define STEALING_RULES "none|next|next_backoff|random|richest"

/* Worker number i of the ring owns queue[i]. */
struct ring {
    struct taskqueue *queue;
    size_t count;
};

struct stealing_rule {
    const char *name;
    /* The number of a queue that holds two tasks or more, or `thief` when it saw none. Looks are counted in
     * steals_tried. NULL: nobody is robbed. */
    size_t (*choose)(const struct ring *ring, size_t thief, struct random *random, struct counter_block *me);
    int anywhere;  /* any queue may be robbed, or else the next only */
    int backs_off; /* the thief sleeps after so many empty looks */
};

/* The rule of that name, or NULL. */
const struct stealing_rule *stealing_find(const char *name);

/* The number of the queue that holds most, others than `thief` only, or `thief` when none holds two. */
size_t stealing_longest(const struct ring *ring, size_t thief);

static inline size_t ring_next(const struct ring *ring, size_t number) {
    return number + 1 < ring->count ? number + 1 : 0;
}

static inline size_t ring_previous(const struct ring *ring, size_t number) {
    return number ? number - 1 : ring->count - 1;
}

/* Whether a queue is worth robbing. */
static inline int ring_holds_two(const struct ring *ring, size_t number) {
    return taskqueue_depth(&ring->queue[number]) >= 2;
}

#endif
