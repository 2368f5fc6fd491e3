/* What is to happen, in the order of time, and at one moment in the order of scheduling.
 *
 * An event is one 128-bit number: its time (as bits, which order as the numbers do from 0 on), its turn, and
 * what it is about. Three places hold them: a 4-ary heap; a ring for what happens at this very moment; and
 * for each CPU the end of what it does, of which there is one at most and which changes often. The heap's
 * root may be a hole after a pop, which the next push fills at the cost of one descent instead of two. */
#ifndef KNEEPOINT_SIM_EVENTS_H
#define KNEEPOINT_SIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "program.h"

typedef unsigned __int128 event;

/* What an event is about: the kind, and the number of a thread, a CPU or a call. */
enum event_kind { EVENT_THREAD, EVENT_TICK, EVENT_CALL, EVENT_CPU };
enum { EVENT_NUMBER_BITS = 22, EVENT_SOURCE_BITS = 24 };

#define EVENT_NEVER (~(event)0)

struct events {
    double now;
    uint64_t turn;
    event *heap; /* slots beyond the count hold EVENT_NEVER */
    event *ring;
    void *memory;
    uint32_t count, capacity;
    uint32_t head, waiting, mask;
    bool hole;
    uint32_t cpus, first; /* the CPU whose end comes first */
    event ends[PROGRAM_CPUS];
};

int events_create(struct events *events, uint32_t capacity, uint32_t cpus);
void events_destroy(struct events *events);
/* Room for so many events at once. 0 or −ENOMEM. */
int events_reserve(struct events *events, uint32_t capacity);

static inline event event_of(struct events *events, double time, uint32_t source) {
    uint64_t bits;
    time += 0.0; /* −0 becomes 0 */
    memcpy(&bits, &time, sizeof bits);
    return (event)bits << 64 | (event)(events->turn++ << EVENT_SOURCE_BITS | source);
}

/* There were so many events that their turns no longer fit. */
static inline bool events_exhausted(const struct events *events) {
    return events->turn >> (64 - EVENT_SOURCE_BITS - 1);
}

static inline double event_time(event e) {
    const uint64_t bits = (uint64_t)(e >> 64);
    double time;
    memcpy(&time, &bits, sizeof time);
    return time;
}

static inline enum event_kind event_kind(event e) {
    return (enum event_kind)((uint32_t)e >> EVENT_NUMBER_BITS & 3);
}

static inline uint32_t event_number(event e) {
    return (uint32_t)e & ((1u << EVENT_NUMBER_BITS) - 1);
}

static inline uint32_t event_source(enum event_kind kind, uint32_t number) {
    return (uint32_t)kind << EVENT_NUMBER_BITS | number;
}

static inline void events_sink(struct events *events, event e) {
    event *heap = events->heap;
    const uint32_t count = events->count;
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 4 * at + 1) {
        const uint32_t left = child + (heap[child + 1] < heap[child]);
        const uint32_t right = child + 2 + (heap[child + 3] < heap[child + 2]);
        const uint32_t least = heap[right] < heap[left] ? right : left;
        if (e <= heap[least])
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = e;
}

static inline void events_rise(struct events *events, event e) {
    event *heap = events->heap;
    uint32_t at = events->count++;
    while (at > 0 && e < heap[(at - 1) / 4]) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap[at] = e;
}

/* Something happens after so long, which is not negative. There must be room. */
static inline void events_push(struct events *events, double delay, uint32_t source) {
    const double time = events->now + delay;
    const event e = event_of(events, time, source);
    if (time <= events->now) {
        events->ring[(events->head + events->waiting++) & events->mask] = e;
    } else if (events->hole) {
        events->hole = false;
        events_sink(events, e);
    } else {
        events_rise(events, e);
    }
}

/* What the CPU does ends after so long; replaces the end that it had. */
static inline void events_end(struct events *events, uint32_t cpu, double delay) {
    const event e = event_of(events, events->now + delay, event_source(EVENT_CPU, cpu));
    events->ends[cpu] = e;
    if (e < events->ends[events->first]) {
        events->first = cpu;
    } else if (cpu == events->first) {
        for (uint32_t k = 0; k < events->cpus; k++)
            if (events->ends[k] < events->ends[events->first])
                events->first = k;
    }
}

/* What the CPU does no longer ends by itself. */
static inline void events_endless(struct events *events, uint32_t cpu) {
    events->ends[cpu] = EVENT_NEVER;
    if (cpu == events->first)
        for (uint32_t k = 0; k < events->cpus; k++)
            if (events->ends[k] < events->ends[events->first])
                events->first = k;
}

static inline event events_fill(struct events *events) {
    events->hole = false;
    const event last = events->heap[--events->count];
    events->heap[events->count] = EVENT_NEVER;
    if (events->count)
        events_sink(events, last);
    return events->heap[0];
}

/* The next event, which stays; EVENT_NEVER when there is none. */
static inline event events_next(struct events *events) {
    event next = events->hole ? events_fill(events) : events->heap[0];
    if (events->waiting && events->ring[events->head] < next)
        next = events->ring[events->head];
    return events->ends[events->first] < next ? events->ends[events->first] : next;
}

/* Removes the event that events_next gave. */
static inline void events_drop(struct events *events, event e) {
    if (event_kind(e) == EVENT_CPU) {
        events_endless(events, event_number(e));
    } else if (events->waiting && events->ring[events->head] == e) {
        events->head = (events->head + 1) & events->mask;
        events->waiting--;
    } else {
        events->hole = true;
    }
}

#endif
