#include "timers.h"

#include <errno.h>
#include <stdlib.h>

int timers_init(struct timers *timers, size_t capacity) {
    *timers = (struct timers){.heap = malloc(capacity * sizeof(struct timer)), .capacity = capacity};
    return timers->heap ? 0 : -ENOMEM;
}

void timers_free(struct timers *timers) {
    free(timers->heap);
    timers->heap = NULL;
}

void timers_add(struct timers *timers, int64_t due, void *owner) {
    size_t at = timers->count++;
    while (at && timers->heap[(at - 1) / 2].due > due) {
        timers->heap[at] = timers->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    timers->heap[at] = (struct timer){due, owner};
}

void *timers_due(struct timers *timers, int64_t now) {
    if (!timers->count || timers->heap[0].due > now)
        return NULL;
    void *owner = timers->heap[0].owner;
    struct timer last = timers->heap[--timers->count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < timers->count) {
        if (child + 1 < timers->count && timers->heap[child + 1].due < timers->heap[child].due)
            child++;
        if (timers->heap[child].due >= last.due)
            break;
        timers->heap[at] = timers->heap[child];
        at = child;
    }
    timers->heap[at] = last;
    return owner;
}

int64_t timers_next(const struct timers *timers) {
    return timers->count ? timers->heap[0].due : INT64_MAX;
}
