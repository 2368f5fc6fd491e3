#define _GNU_SOURCE
#include "stock_lock.h"

#include "../core/clock.h"

#include <errno.h>
#include <string.h>

/* Turns of a seqlock's reader before it waits for the writers' mutex: a writer that has lost the CPU inside
 * comes back no sooner for being looked at. */
enum { SEQUENCE_TURNS = 64 };

static int64_t load(const _Atomic int64_t *balance) {
    return atomic_load_explicit(balance, memory_order_relaxed);
}

static void count_wait(struct counter_block *me, int64_t start) {
    if (!me)
        return;
    COUNT(me, lock_waits, 1);
    COUNT(me, lock_wait_ns, clock_now() - start);
}

static void create_mutex(pthread_mutex_t *mutex, int shared) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (shared) {
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    }
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* A holder that was killed has left nothing to repair: see stock_lock.h. */
static void lock_mutex(pthread_mutex_t *mutex, struct counter_block *me) {
    int rc = pthread_mutex_trylock(mutex);
    if (rc == EBUSY) {
        int64_t start = clock_now();
        rc = pthread_mutex_lock(mutex);
        count_wait(me, start);
    }
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(mutex);
}

static void mutex_create(union stock_lock *lock, int shared) {
    create_mutex(&lock->mutex, shared);
}

static void mutex_destroy(union stock_lock *lock) {
    pthread_mutex_destroy(&lock->mutex);
}

static void mutex_write(union stock_lock *lock, struct counter_block *me) {
    lock_mutex(&lock->mutex, me);
}

static void mutex_write_end(union stock_lock *lock) {
    pthread_mutex_unlock(&lock->mutex);
}

static int64_t mutex_read(union stock_lock *lock, const _Atomic int64_t *balance, struct counter_block *me) {
    lock_mutex(&lock->mutex, me);
    int64_t found = load(balance);
    pthread_mutex_unlock(&lock->mutex);
    return found;
}

static void down(sem_t *semaphore, struct counter_block *me) {
    if (!sem_trywait(semaphore))
        return;
    int64_t start = clock_now();
    while (sem_wait(semaphore)) /* interrupted by a signal */
        ;
    count_wait(me, start);
}

static void semaphores_create(union stock_lock *lock, int shared) {
    sem_init(&lock->rw.counting, shared, 1);
    sem_init(&lock->rw.writing, shared, 1);
    lock->rw.readers = 0;
}

static void semaphores_destroy(union stock_lock *lock) {
    sem_destroy(&lock->rw.counting);
    sem_destroy(&lock->rw.writing);
}

static int64_t semaphores_read(union stock_lock *lock, const _Atomic int64_t *balance,
                               struct counter_block *me) {
    down(&lock->rw.counting, me);
    if (++lock->rw.readers == 1)
        down(&lock->rw.writing, me);
    sem_post(&lock->rw.counting);
    int64_t found = load(balance);
    down(&lock->rw.counting, me);
    if (--lock->rw.readers == 0)
        sem_post(&lock->rw.writing);
    sem_post(&lock->rw.counting);
    return found;
}

static void semaphores_write(union stock_lock *lock, struct counter_block *me) {
    down(&lock->rw.writing, me);
}

static void semaphores_write_end(union stock_lock *lock) {
    sem_post(&lock->rw.writing);
}

static void rwlock_create(union stock_lock *lock, int shared) {
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    if (shared)
        pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&lock->rwlock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

static void rwlock_destroy(union stock_lock *lock) {
    pthread_rwlock_destroy(&lock->rwlock);
}

static int64_t rwlock_read(union stock_lock *lock, const _Atomic int64_t *balance, struct counter_block *me) {
    if (pthread_rwlock_tryrdlock(&lock->rwlock)) {
        int64_t start = clock_now();
        while (pthread_rwlock_rdlock(&lock->rwlock)) /* the most readers that it can count are inside */
            ;
        count_wait(me, start);
    }
    int64_t found = load(balance);
    pthread_rwlock_unlock(&lock->rwlock);
    return found;
}

static void rwlock_write(union stock_lock *lock, struct counter_block *me) {
    if (!pthread_rwlock_trywrlock(&lock->rwlock))
        return;
    int64_t start = clock_now();
    pthread_rwlock_wrlock(&lock->rwlock);
    count_wait(me, start);
}

static void rwlock_write_end(union stock_lock *lock) {
    pthread_rwlock_unlock(&lock->rwlock);
}

static void sequence_create(union stock_lock *lock, int shared) {
    atomic_init(&lock->seq.sequence, 0);
    create_mutex(&lock->seq.writers, shared);
}

static void sequence_destroy(union stock_lock *lock) {
    pthread_mutex_destroy(&lock->seq.writers);
}

/* A writer that was killed has left the sequence odd. The balance is stored with release and loaded with
 * acquire, so that who reads a new balance also reads the odd number that was stored before it. */
static void sequence_write(union stock_lock *lock, struct counter_block *me) {
    lock_mutex(&lock->seq.writers, me);
    uint64_t sequence = atomic_load_explicit(&lock->seq.sequence, memory_order_relaxed);
    atomic_store_explicit(&lock->seq.sequence, sequence | 1, memory_order_relaxed);
}

static void sequence_write_end(union stock_lock *lock) {
    uint64_t sequence = atomic_load_explicit(&lock->seq.sequence, memory_order_relaxed);
    atomic_store_explicit(&lock->seq.sequence, sequence + 1, memory_order_release);
    pthread_mutex_unlock(&lock->seq.writers);
}

static int64_t sequence_read(union stock_lock *lock, const _Atomic int64_t *balance,
                             struct counter_block *me) {
    for (int turn = 0; turn < SEQUENCE_TURNS; turn++) {
        uint64_t before = atomic_load_explicit(&lock->seq.sequence, memory_order_acquire);
        int64_t found = atomic_load_explicit(balance, memory_order_acquire);
        if (!(before & 1) && atomic_load_explicit(&lock->seq.sequence, memory_order_relaxed) == before)
            return found;
    }
    sequence_write(lock, me);
    int64_t found = load(balance);
    sequence_write_end(lock);
    return found;
}

static void none_create(union stock_lock *lock, int shared) {
    (void)lock, (void)shared;
}

static void none_destroy(union stock_lock *lock) {
    (void)lock;
}

static int64_t none_read(union stock_lock *lock, const _Atomic int64_t *balance, struct counter_block *me) {
    (void)lock, (void)me;
    return load(balance);
}

static void none_write(union stock_lock *lock, struct counter_block *me) {
    (void)lock, (void)me;
}

static const struct stock_lock_kind kinds[] = {
    {"mutex", NULL, 1, mutex_create, mutex_destroy, mutex_read, mutex_write, mutex_write_end},
    {"readers_writers", "semaphores do not know their holders", 1, semaphores_create, semaphores_destroy,
     semaphores_read, semaphores_write, semaphores_write_end},
    {"rwlock", "pthread has no robust readers-writers lock", 1, rwlock_create, rwlock_destroy, rwlock_read,
     rwlock_write, rwlock_write_end},
    {"seqlock", NULL, 1, sequence_create, sequence_destroy, sequence_read, sequence_write,
     sequence_write_end},
    {"none", NULL, 0, none_create, none_destroy, none_read, none_write, none_destroy},
};

const struct stock_lock_kind *stock_lock_kind(const char *name) {
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}
