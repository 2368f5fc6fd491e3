/* A bounded first-in first-out buffer of pointers under three semaphores (the producer-consumer of Bryant and
 * O'Hallaron, Computer Systems, section 12.5.4): slots counts free places, items counts filled ones, mutex
 * guards the ring.
 *
 * insert and remove are safe from any number of threads. `me` is the caller's own block: a look that finds a
 * semaphore free costs nothing more; otherwise lock_waits and lock_wait_ns are counted for mutex, sleeps for
 * slots, sleeps and wait_ns for items. */
#ifndef KNEEPOINT_BOUNDEDBUF_H
#define KNEEPOINT_BOUNDEDBUF_H

#include "counters.h"
#include <semaphore.h>

struct boundedbuf {
    void **ring;
    size_t capacity;
    size_t front, count; /* under mutex */
    struct counter_block
        *gauge; /* whose queue_depth and queue_peak tell the count; under mutex; NULL: nobody's */
    sem_t mutex, slots, items;
    _Atomic int closed;
};

/* 1 … SEM_VALUE_MAX−1 places. 0 or a negated errno. */
int boundedbuf_create(struct boundedbuf *buffer, size_t capacity);

/* No thread may be inside any more; what is still in the buffer stays the caller's. */
void boundedbuf_destroy(struct boundedbuf *buffer);

/* Shows the depth in this block from now on. */
void boundedbuf_show(struct boundedbuf *buffer, struct counter_block *gauge);

/* Sleeps while the buffer is full. -ECANCELED once it is closed: the item was not taken. */
int boundedbuf_insert(struct boundedbuf *buffer, void *item, struct counter_block *me);

/* The oldest item; sleeps while there is none. NULL once the buffer is closed, whatever it still holds. */
void *boundedbuf_remove(struct boundedbuf *buffer, struct counter_block *me);

/* Wakes everybody and lets nobody sleep again. */
void boundedbuf_close(struct boundedbuf *buffer);

#endif
