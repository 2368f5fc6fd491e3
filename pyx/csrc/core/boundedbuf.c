/* Closing: the flag is set, then one post to slots and one to items. Whoever gets through a semaphore and
 * sees the flag posts it again for the next, so a single post reaches every sleeper, however many there are.
 */
#include "boundedbuf.h"

#include "clock.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

int boundedbuf_create(struct boundedbuf *buffer, size_t capacity) {
    *buffer = (struct boundedbuf){.capacity = capacity};
    if (!capacity || capacity >= SEM_VALUE_MAX)
        return -EINVAL;
    buffer->ring = calloc(capacity, sizeof(*buffer->ring));
    if (!buffer->ring)
        return -ENOMEM;
    sem_init(&buffer->mutex, 0, 1);
    sem_init(&buffer->slots, 0, (unsigned)capacity);
    sem_init(&buffer->items, 0, 0);
    return 0;
}

void boundedbuf_destroy(struct boundedbuf *buffer) {
    sem_destroy(&buffer->mutex);
    sem_destroy(&buffer->slots);
    sem_destroy(&buffer->items);
    free(buffer->ring);
}

/* Takes the semaphore; the time slept for it, 0 when it was free. */
static int64_t take(sem_t *semaphore) {
    if (!sem_trywait(semaphore))
        return 0;
    int64_t start = clock_now();
    while (sem_wait(semaphore))
        ;
    return clock_now() - start;
}

static void lock(struct boundedbuf *buffer, struct counter_block *me) {
    int64_t waited = take(&buffer->mutex);
    if (waited) {
        COUNT(me, lock_waits, 1);
        COUNT(me, lock_wait_ns, waited);
    }
}

static void unlock(struct boundedbuf *buffer) {
    if (buffer->gauge)
        counters_depth(buffer->gauge, buffer->count);
    sem_post(&buffer->mutex);
}

void boundedbuf_show(struct boundedbuf *buffer, struct counter_block *gauge) {
    take(&buffer->mutex);
    buffer->gauge = gauge;
    unlock(buffer);
}

int boundedbuf_insert(struct boundedbuf *buffer, void *item, struct counter_block *me) {
    if (take(&buffer->slots))
        COUNT(me, sleeps, 1);
    if (atomic_load(&buffer->closed)) {
        sem_post(&buffer->slots);
        return -ECANCELED;
    }
    lock(buffer, me);
    buffer->ring[(buffer->front + buffer->count) % buffer->capacity] = item;
    buffer->count++;
    unlock(buffer);
    sem_post(&buffer->items);
    return 0;
}

void *boundedbuf_remove(struct boundedbuf *buffer, struct counter_block *me) {
    int64_t waited = take(&buffer->items);
    if (waited) {
        COUNT(me, sleeps, 1);
        COUNT(me, wait_ns, waited);
    }
    if (atomic_load(&buffer->closed)) {
        sem_post(&buffer->items);
        return NULL;
    }
    lock(buffer, me);
    void *item = buffer->ring[buffer->front];
    buffer->front = (buffer->front + 1) % buffer->capacity;
    buffer->count--;
    unlock(buffer);
    sem_post(&buffer->slots);
    return item;
}

void boundedbuf_close(struct boundedbuf *buffer) {
    atomic_store(&buffer->closed, 1);
    sem_post(&buffer->slots);
    sem_post(&buffer->items);
}
