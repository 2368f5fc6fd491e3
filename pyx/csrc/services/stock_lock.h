/* The lock over the balance of one stock, or over all of them, in one of several kinds.
 *
 *     mutex            lets one in, reader or writer
 *     readers_writers  the first readers-writers solution by semaphores (Courtois, Heymans and Parnas, 1971):
 *                      readers share, and a writer may wait for as long as readers keep coming
 *     rwlock           the same by pthread's lock, whose readers go first too
 *     seqlock          readers write nothing: they read again when a sequence number says that a writer was
 *                      there meanwhile, and after many such turns wait for the writers' mutex
 *     none             nothing: orders at the same time overwrite each other
 *
 * Waiting is counted into `me`, if it is not NULL: a lock is tried first, so one that is free costs no clock
 * reading.
 *
 * A shared lock lies in memory that several processes share. A process that is killed while it holds one
 * frees it with its death, if the kind can; what the lock guards is one word, so it is never half changed. */
#ifndef KNEEPOINT_STOCK_LOCK_H
#define KNEEPOINT_STOCK_LOCK_H

#include "../core/counters.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

union stock_lock {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    struct {
        sem_t counting; /* guards readers */
        sem_t writing;  /* held by one writer, or by the readers together */
        unsigned readers;
    } rw;
    struct {
        _Atomic uint64_t sequence; /* odd while a writer is inside */
        pthread_mutex_t writers;
    } seq;
};

struct stock_lock_kind {
    const char *name;
    const char *stays; /* why it stays held when a process that holds it is killed; NULL: it does not */
    int guards;        /* 0: threads at the same time spoil each other's work */
    /* Cannot fail. */
    void (*create)(union stock_lock *lock, int shared);
    void (*destroy)(union stock_lock *lock);
    /* The balance, read under the lock. */
    int64_t (*read)(union stock_lock *lock, const _Atomic int64_t *balance, struct counter_block *me);
    /* Between write and write_end, the caller alone reads and writes the balance. */
    void (*write)(union stock_lock *lock, struct counter_block *me);
    void (*write_end)(union stock_lock *lock);
};

/* The kind of that name, or NULL. */
const struct stock_lock_kind *stock_lock_kind(const char *name);

#endif
