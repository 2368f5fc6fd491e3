/* Threads in the order of a time; among equals, in the order in which they came. An array that moves along a
 * longer one: taking the first and adding at the end, the usual cases, move nothing. */
#ifndef KNEEPOINT_SIM_RUNQUEUE_H
#define KNEEPOINT_SIM_RUNQUEUE_H

#include <stdint.h>
#include <string.h>

struct thread;

struct runqueue_entry {
    double key;
    struct thread *thread;
};

struct runqueue {
    struct runqueue_entry *entries; /* the first one */
    struct runqueue_entry *room;    /* for twice the threads that there are */
    uint32_t count, capacity;
};

/* There must be fewer than capacity / 2 threads in it. */
static inline void runqueue_insert(struct runqueue *queue, double key, struct thread *thread) {
    if (queue->entries + queue->count == queue->room + queue->capacity) {
        memmove(queue->room, queue->entries, queue->count * sizeof *queue->room);
        queue->entries = queue->room;
    }
    uint32_t at = queue->count++;
    for (; at > 0 && queue->entries[at - 1].key > key; at--)
        queue->entries[at] = queue->entries[at - 1];
    queue->entries[at] = (struct runqueue_entry){key, thread};
}

/* The thread must be in it. */
static inline void runqueue_remove(struct runqueue *queue, const struct thread *thread) {
    uint32_t at = 0;
    while (queue->entries[at].thread != thread)
        at++;
    queue->count--;
    if (at == 0)
        queue->entries++;
    else
        memmove(queue->entries + at, queue->entries + at + 1, (queue->count - at) * sizeof *queue->entries);
}

#endif
