/* A lock over one stock, or over all of them, in one of two kinds.
 *
 * `readers_writers` is the first readers-writers solution by semaphores (Courtois, Heymans and Parnas, 1971):
 * readers share, and a writer may wait for as long as readers keep coming. `mutex` lets one in, reader or
 * writer. Waiting is counted into `me`, if it is not NULL: a lock is tried first, so one that is free costs
 * no clock reading. */
#ifndef KNEEPOINT_STOCK_LOCK_H
#define KNEEPOINT_STOCK_LOCK_H

#include "../core/counters.h"
#include <pthread.h>
#include <semaphore.h>

enum stock_lock_kind { STOCK_LOCK_MUTEX, STOCK_LOCK_READERS_WRITERS };

union stock_lock {
    pthread_mutex_t mutex;
    struct {
        sem_t counting; /* guards readers */
        sem_t writing;  /* held by one writer, or by the readers together */
        unsigned readers;
    } rw;
};

/* Cannot fail. */
void stock_lock_create(enum stock_lock_kind kind, union stock_lock *lock);
void stock_lock_destroy(enum stock_lock_kind kind, union stock_lock *lock);

void stock_lock_read(enum stock_lock_kind kind, union stock_lock *lock, struct counter_block *me);
void stock_lock_read_end(enum stock_lock_kind kind, union stock_lock *lock, struct counter_block *me);
void stock_lock_write(enum stock_lock_kind kind, union stock_lock *lock, struct counter_block *me);
void stock_lock_write_end(enum stock_lock_kind kind, union stock_lock *lock);

#endif
