/* Who owns a task: it is in exactly one place, in one queue or in the hands of one worker, and moves under
 * the queue's lock, so none is lost or run twice.
 *
 * Locks: the queues' are the only ones, and nobody ever holds two. A thief takes its share out under the
 * victim's lock, lets go, and puts it into its own queue under its own.
 *
 * The end of a job: a worker reads all it needs of a job before it counts down, and touches the job after
 * that only when its count was the last and there is a finish to call, in which case nobody else can think it
 * finished.
 *
 * Waiting with spin: a worker polls its queue under its lock, without pause, until `ending`; only when
 * the pool is cut does it take naps, to leave the processors to those who have tasks left to count down.
 *
 * Waiting without: a worker about to sleep sets `idle`, then looks once more at all that it could take, then
 * waits for its semaphore. Whoever makes work first changes a depth, then looks at `idle`; if it is set,
 * clears it and posts. These four accesses are sequentially consistent, so either the worker sees the depth
 * or the other sees the worker idle. Only the one who clears `idle` posts, so posts and waits pair off.
 *
 * What worker i could take is its own queue when that is not empty and, when stealing, queue i+1 when that
 * holds two or more. Depths grow in two places only: submit puts a task, a thief puts its share into its own
 * queue. Both wake the queue's owner (a thief is awake), and worker i−1 when the depth has become two or
 * more. So no worker sleeps while there is something that it could take.
 *
 * Stop: nobody submits any more. A worker that saw `ending` and then finds nothing leaves; its queue is empty
 * for good, as only a thief, into its own queue, still puts. */
#include "taskpool.h"

#include "clock.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS_A_LOOK = 1024 /* turns between two looks at the clock */ };

struct worker {
    struct taskqueue queue;
    struct taskpool *pool;
    struct worker *previous, *next; /* in a ring */
    struct counters *counters;
    _Atomic int idle;
    sem_t wakeup;
    pthread_t thread;
};

struct taskpool {
    struct taskpool_options options;
    _Atomic int cut, ending;
    struct worker *worker;
};

void job_init(struct job *job, struct conn *conn, uint64_t stream,
              void (*finish)(struct job *, struct counter_block *)) {
    *job = (struct job){.conn = conn, .finish = finish};
    random_seed(&job->random, 0x6a6f6273, stream);
}

void job_free(struct job *job) {
    free(job->tasks);
}

static void wake(struct worker *worker) {
    if (atomic_load(&worker->idle) && atomic_exchange(&worker->idle, 0))
        sem_post(&worker->wakeup);
}

/* To be called after a put into the worker's queue that made it so deep. */
static void wake_takers(struct worker *worker, uint32_t depth) {
    const struct taskpool_options *options = &worker->pool->options;
    if (options->spin)
        return;
    wake(worker);
    if (options->steal && depth >= 2)
        wake(worker->previous);
}

static struct task *steal(struct worker *worker, struct counter_block *me) {
    struct task *first, *last;
    COUNT(me, steals_tried, 1);
    if (taskqueue_depth(&worker->next->queue) < 2)
        return NULL;
    uint32_t count = taskqueue_take_half(&worker->next->queue, &first, &last, me);
    if (!count)
        return NULL;
    COUNT(me, steals, count);
    if (count > 1)
        wake_takers(worker, taskqueue_put_chain(&worker->queue, first->next, last, count - 1, me));
    return first;
}

static struct task *find(struct worker *worker, struct counter_block *me) {
    struct task *task = taskqueue_take(&worker->queue, me);
    return task || !worker->pool->options.steal ? task : steal(worker, me);
}

/* The time when it was done. */
static int64_t run(struct taskpool *pool, struct task *task, struct counter_block *me) {
    struct job *job = task->job;
    void (*finish)(struct job *, struct counter_block *) = job->finish;
    int64_t now = clock_now();
    if (!taskpool_is_cut(pool)) {
        struct conn *conn = job->conn;
        int64_t start = now;
        conn->service->run(conn->state, conn->session, task->index, pool->options.chunk, me);
        now = clock_now();
        COUNT(me, busy_ns, now - start);
        COUNT(me, tasks, 1);
    }
    if (atomic_fetch_sub_explicit(&job->remaining, 1, memory_order_acq_rel) == 1 && finish)
        finish(job, me);
    counters_publish(me, now);
    return now;
}

static void spin_for_tasks(struct worker *worker, struct counter_block *me) {
    const struct timespec nap = {0, 1000000};
    int64_t since = clock_now();
    uint64_t turns = 0;
    for (;;) {
        int ending = atomic_load(&worker->pool->ending);
        struct task *task = find(worker, me);
        if (!task) {
            if (ending)
                return;
            COUNT(me, spins, 1);
            turns++;
        }
        if (task ? turns : !(turns % SPINS_A_LOOK)) {
            int64_t now = clock_now();
            COUNT(me, wait_ns, now - since);
            counters_publish(me, now);
            since = now;
            if (!task && taskpool_is_cut(worker->pool))
                nanosleep(&nap, NULL);
        }
        if (task) {
            since = run(worker->pool, task, me);
            turns = 0;
        }
    }
}

static int could_take(struct worker *worker) {
    return taskqueue_depth(&worker->queue) ||
           (worker->pool->options.steal && taskqueue_depth(&worker->next->queue) >= 2) ||
           atomic_load(&worker->pool->ending);
}

/* A semaphore that is free costs no sleep, so `sleeps` is exact. */
static void sleep_until_woken(struct worker *worker, struct counter_block *me) {
    atomic_store(&worker->idle, 1);
    if (could_take(worker) && atomic_exchange(&worker->idle, 0))
        return;
    if (!sem_trywait(&worker->wakeup))
        return;
    int64_t start = clock_now();
    while (sem_wait(&worker->wakeup))
        ;
    COUNT(me, sleeps, 1);
    COUNT(me, wait_ns, clock_now() - start);
}

static void sleep_for_tasks(struct worker *worker, struct counter_block *me) {
    for (;;) {
        int ending = atomic_load(&worker->pool->ending);
        struct task *task = find(worker, me);
        if (task)
            run(worker->pool, task, me);
        else if (ending)
            return;
        else
            sleep_until_woken(worker, me);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct counter_block *me = counters_claim(worker->counters, ROLE_WORKER);
    taskqueue_show(&worker->queue, me);
    if (worker->pool->options.spin)
        spin_for_tasks(worker, me);
    else
        sleep_for_tasks(worker, me);
    counters_release(me);
    return NULL;
}

static int reserve(struct job *job, uint32_t count) {
    if (count <= job->capacity)
        return 0;
    struct task *tasks = realloc(job->tasks, count * sizeof(*tasks));
    if (!tasks)
        return -ENOMEM;
    job->tasks = tasks;
    job->capacity = count;
    return 0;
}

int taskpool_submit(struct taskpool *pool, struct job *job, struct counter_block *me) {
    struct conn *conn = job->conn;
    uint32_t count = conn->service->split(conn->state, conn->session, pool->options.chunk);
    int rc = reserve(job, count);
    if (rc)
        return rc;
    atomic_store_explicit(&job->remaining, count, memory_order_relaxed);
    struct worker *worker = &pool->worker[random_below(&job->random, pool->options.workers)];
    struct task *tasks = job->tasks; /* the job itself may be gone once its last task is put */
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] = (struct task){NULL, job, i};
        wake_takers(worker, taskqueue_put(&worker->queue, &tasks[i], me));
        worker = worker->next;
    }
    return 0;
}

int taskpool_create(const struct taskpool_options *options, struct taskpool **out) {
    size_t size = options->workers * sizeof(struct worker);
    struct taskpool *pool = calloc(1, sizeof(*pool));
    struct worker *worker = aligned_alloc(_Alignof(struct worker), size);
    if (!pool || !worker) {
        free(pool);
        free(worker);
        return -ENOMEM;
    }
    memset(worker, 0, size);
    pool->options = *options;
    pool->options.steal = options->steal && options->workers > 1;
    pool->worker = worker;
    for (size_t i = 0; i < options->workers; i++) {
        taskqueue_create(&worker[i].queue);
        sem_init(&worker[i].wakeup, 0, 0);
        worker[i].pool = pool;
        worker[i].next = &worker[(i + 1) % options->workers];
        worker[i].next->previous = &worker[i];
    }
    *out = pool;
    return 0;
}

void taskpool_destroy(struct taskpool *pool) {
    for (size_t i = 0; i < pool->options.workers; i++) {
        sem_destroy(&pool->worker[i].wakeup);
        taskqueue_destroy(&pool->worker[i].queue);
    }
    free(pool->worker);
    free(pool);
}

static int end_workers(struct taskpool *pool, size_t count) {
    int rc = 0;
    atomic_store(&pool->ending, 1);
    for (size_t i = 0; i < count; i++)
        wake(&pool->worker[i]);
    for (size_t i = 0; i < count; i++) {
        int one = -pthread_join(pool->worker[i].thread, NULL);
        rc = rc ? rc : one;
    }
    return rc;
}

int taskpool_start(struct taskpool *pool, struct counters *counters) {
    for (size_t i = 0; i < pool->options.workers; i++) {
        pool->worker[i].counters = counters;
        int rc = -pthread_create(&pool->worker[i].thread, NULL, work, &pool->worker[i]);
        if (rc) {
            end_workers(pool, i);
            return rc;
        }
    }
    return 0;
}

void taskpool_cut(struct taskpool *pool) {
    atomic_store(&pool->cut, 1);
}

int taskpool_is_cut(const struct taskpool *pool) {
    return atomic_load_explicit(&pool->cut, memory_order_relaxed);
}

int taskpool_end(struct taskpool *pool) {
    return end_workers(pool, pool->options.workers);
}
