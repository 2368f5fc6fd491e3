#define _GNU_SOURCE
#include "stock_lock.h"

#include "../core/clock.h"

static void count_wait(struct counter_block *me, int64_t start) {
    if (!me)
        return;
    COUNT(me, lock_waits, 1);
    COUNT(me, lock_wait_ns, clock_now() - start);
}

static void down(sem_t *semaphore, struct counter_block *me) {
    if (!sem_trywait(semaphore))
        return;
    int64_t start = clock_now();
    while (sem_wait(semaphore)) /* interrupted by a signal */
        ;
    count_wait(me, start);
}

static void lock_mutex(pthread_mutex_t *mutex, struct counter_block *me) {
    if (!pthread_mutex_trylock(mutex))
        return;
    int64_t start = clock_now();
    pthread_mutex_lock(mutex);
    count_wait(me, start);
}

void stock_lock_create(enum stock_lock_kind kind, union stock_lock *lock) {
    if (kind == STOCK_LOCK_MUTEX) {
        pthread_mutex_init(&lock->mutex, NULL);
        return;
    }
    sem_init(&lock->rw.counting, 0, 1);
    sem_init(&lock->rw.writing, 0, 1);
    lock->rw.readers = 0;
}

void stock_lock_destroy(enum stock_lock_kind kind, union stock_lock *lock) {
    if (kind == STOCK_LOCK_MUTEX) {
        pthread_mutex_destroy(&lock->mutex);
        return;
    }
    sem_destroy(&lock->rw.counting);
    sem_destroy(&lock->rw.writing);
}

void stock_lock_read(enum stock_lock_kind kind, union stock_lock *lock, struct counter_block *me) {
    if (kind == STOCK_LOCK_MUTEX) {
        lock_mutex(&lock->mutex, me);
        return;
    }
    down(&lock->rw.counting, me);
    if (++lock->rw.readers == 1)
        down(&lock->rw.writing, me);
    sem_post(&lock->rw.counting);
}

void stock_lock_read_end(enum stock_lock_kind kind, union stock_lock *lock, struct counter_block *me) {
    if (kind == STOCK_LOCK_MUTEX) {
        pthread_mutex_unlock(&lock->mutex);
        return;
    }
    down(&lock->rw.counting, me);
    if (--lock->rw.readers == 0)
        sem_post(&lock->rw.writing);
    sem_post(&lock->rw.counting);
}

void stock_lock_write(enum stock_lock_kind kind, union stock_lock *lock, struct counter_block *me) {
    if (kind == STOCK_LOCK_MUTEX)
        lock_mutex(&lock->mutex, me);
    else
        down(&lock->rw.writing, me);
}

void stock_lock_write_end(enum stock_lock_kind kind, union stock_lock *lock) {
    if (kind == STOCK_LOCK_MUTEX)
        pthread_mutex_unlock(&lock->mutex);
    else
        sem_post(&lock->rw.writing);
}
