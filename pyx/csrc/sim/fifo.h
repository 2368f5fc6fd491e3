/* A queue of items of 1 to 4 words: a ring that grows up to a limit. */
#ifndef KNEEPOINT_SIM_FIFO_H
#define KNEEPOINT_SIM_FIFO_H

#include "program.h"

struct fifo {
    union word *words;
    uint32_t head, count, capacity; /* items; the capacity is a power of two, or 0 */
    uint32_t width;
};

/* Doubles the ring. 0, −ENOSPC at the limit, −ENOMEM. */
int fifo_grow(struct fifo *fifo);
void fifo_free(struct fifo *fifo);

/* The words of the k-th item from the left, which may be one beyond the last. */
static inline union word *fifo_item(const struct fifo *fifo, uint32_t k) {
    return fifo->words + (size_t)((fifo->head + k) & (fifo->capacity - 1)) * fifo->width;
}

static inline void fifo_copy(const struct fifo *fifo, union word *to, const union word *from) {
    for (uint32_t k = 0; k < fifo->width; k++)
        to[k] = from[k];
}

/* 0, or as fifo_grow. */
static inline int fifo_put(struct fifo *fifo, const union word *item) {
    if (fifo->count == fifo->capacity) {
        const int rc = fifo_grow(fifo);
        if (rc < 0)
            return rc;
    }
    fifo_copy(fifo, fifo_item(fifo, fifo->count++), item);
    return 0;
}

static inline int fifo_put_left(struct fifo *fifo, const union word *item) {
    if (fifo->count == fifo->capacity) {
        const int rc = fifo_grow(fifo);
        if (rc < 0)
            return rc;
    }
    fifo->head = (fifo->head - 1) & (fifo->capacity - 1);
    fifo->count++;
    fifo_copy(fifo, fifo_item(fifo, 0), item);
    return 0;
}

/* The fifo must not be empty. */
static inline void fifo_take(struct fifo *fifo, union word *item) {
    fifo_copy(fifo, item, fifo_item(fifo, 0));
    fifo->head = (fifo->head + 1) & (fifo->capacity - 1);
    fifo->count--;
}

static inline void fifo_pop(struct fifo *fifo, union word *item) {
    fifo_copy(fifo, item, fifo_item(fifo, --fifo->count));
}

#endif
