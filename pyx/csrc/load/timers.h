/* A binary heap of moments: what is due next. One entry for each owner at most; one thread. */
#ifndef KNEEPOINT_TIMERS_H
#define KNEEPOINT_TIMERS_H

#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t due;
    void *owner;
};

struct timers {
    struct timer *heap;
    size_t count, capacity;
};

int timers_init(struct timers *timers, size_t capacity);
void timers_free(struct timers *timers);

/* The heap must hold fewer than `capacity` entries. */
void timers_add(struct timers *timers, int64_t due, void *owner);

/* Takes out one owner whose moment has come; NULL when there is none. */
void *timers_due(struct timers *timers, int64_t now);

/* The earliest moment, or INT64_MAX. */
int64_t timers_next(const struct timers *timers);

#endif
