#include "events.h"

#include <errno.h>
#include <stdlib.h>

/* The four children of a slot share a cache line when slot 1 begins one. */
enum { LINE = 64, BEFORE = LINE / sizeof(event) - 1 };

int events_reserve(struct events *events, uint32_t capacity) {
    uint32_t slots = 16;
    while (slots < capacity)
        slots *= 2;
    void *memory = aligned_alloc(LINE, (size_t)(slots + LINE) * sizeof(event));
    event *ring = malloc(slots * sizeof *ring);
    if (!memory || !ring) {
        free(memory);
        free(ring);
        return -ENOMEM;
    }
    event *heap = (event *)memory + BEFORE;
    for (uint32_t k = 0; k < slots + LINE - BEFORE; k++)
        heap[k] = k < events->count ? events->heap[k] : EVENT_NEVER;
    for (uint32_t k = 0; k < events->waiting; k++)
        ring[k] = events->ring[(events->head + k) & events->mask];
    events_destroy(events);
    events->memory = memory;
    events->heap = heap;
    events->ring = ring;
    events->head = 0;
    events->capacity = slots;
    events->mask = slots - 1;
    return 0;
}

int events_create(struct events *events, uint32_t capacity, uint32_t cpus) {
    *events = (struct events){.cpus = cpus};
    for (uint32_t k = 0; k < PROGRAM_CPUS; k++)
        events->ends[k] = EVENT_NEVER;
    return events_reserve(events, capacity);
}

void events_destroy(struct events *events) {
    free(events->memory);
    free(events->ring);
    events->memory = events->heap = events->ring = NULL;
}
