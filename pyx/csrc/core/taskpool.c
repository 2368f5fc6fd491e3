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
 * the pool is cut does it take naps, to leave the processors to those who have tasks left to count down. With
 * a rule that backs off it also sleeps for a while after so many empty looks, and nobody wakes it.
 *
 * Waiting without: a worker about to sleep sets `idle`, then looks once more at all that it could take, then
 * waits for its semaphore. Whoever makes work first changes a depth, then looks at `idle`; if it is set,
 * clears it and posts. These four accesses are sequentially consistent, so either the worker sees the depth
 * or the other sees the worker idle. Only the one who clears `idle` posts, so posts and waits pair off.
 * `idlers` counts at least those that are idle, to save the others a look at every worker.
 *
 * What worker i could take is its own queue when that is not empty and, when stealing, the next queue, or
 * any, as the rule says, when that holds two or more. Depths grow in two places only: submit puts a task, a
 * thief puts its share into its own queue. Both wake the queue's owner (a thief is awake), and a thief when
 * the depth has become two or more: worker i−1, or any idle one. So no owner sleeps while its queue holds a
 * task, and with a rule for the next queue no worker sleeps while there is something that it could take.
 *
 * Where any queue may be robbed, one wake is no promise: the thief may rob another queue, or find that it has
 * been given a task. So whoever goes to run a task wakes one more while one sleeps and there is something to
 * rob. A worker thus sleeps beside such a queue only while another is awake and looking for a task.
 *
 * Stop: nobody submits any more. A worker that saw `ending` and then finds nothing leaves; its queue is empty
 * for good, as only a thief, into its own queue, still puts. */
#include "taskpool.h"

#include "clock.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { SPINS_A_LOOK = 1024 /* turns between two looks at the clock */ };

/* Aligned so that two workers never share a cache line. */
struct worker {
    struct taskpool *pool;
    size_t number; /* of its queue */
    struct taskqueue *queue;
    struct counters *counters;
    struct random random; /* whom it robs */
    _Atomic int idle;
    sem_t wakeup;
    pthread_t thread;
} __attribute__((aligned(64)));

struct taskpool {
    struct taskpool_options options;
    struct ring ring;
    struct worker *worker;
    _Atomic int cut, ending;
    _Atomic unsigned idlers __attribute__((aligned(64))); /* written at every sleep, unlike the rest */
};

void job_init(struct job *job, struct conn *conn, uint64_t stream,
              void (*finish)(struct job *, struct counter_block *)) {
    *job = (struct job){.conn = conn, .finish = finish};
    random_seed(&job->random, 0x6a6f6273, stream);
}

void job_free(struct job *job) {
    free(job->tasks);
}

/* Whether it slept, or was about to. */
static int wake(struct worker *worker) {
    if (!atomic_load(&worker->idle) || !atomic_exchange(&worker->idle, 0))
        return 0;
    atomic_fetch_sub(&worker->pool->idlers, 1);
    sem_post(&worker->wakeup);
    return 1;
}

/* Wakes the first idle worker after this one. */
static void wake_another(struct taskpool *pool, size_t number) {
    if (!atomic_load(&pool->idlers))
        return;
    for (size_t i = ring_next(&pool->ring, number); i != number; i = ring_next(&pool->ring, i))
        if (wake(&pool->worker[i]))
            return;
}

/* To be called after a put into the queue of that number that made it so deep. */
static void wake_takers(struct taskpool *pool, size_t number, uint32_t depth) {
    const struct stealing_rule *rule = pool->options.steal;
    if (pool->options.spin)
        return;
    wake(&pool->worker[number]);
    if (depth < 2 || !rule->choose)
        return;
    if (rule->anywhere)
        wake_another(pool, number);
    else
        wake(&pool->worker[ring_previous(&pool->ring, number)]);
}

/* Before running a task: see above. */
static void wake_successor(struct worker *worker) {
    struct taskpool *pool = worker->pool;
    if (!pool->options.steal->anywhere || !atomic_load(&pool->idlers))
        return;
    if (ring_holds_two(&pool->ring, worker->number) ||
        stealing_longest(&pool->ring, worker->number) != worker->number)
        wake_another(pool, worker->number);
}

static struct task *steal(struct worker *worker, struct counter_block *me) {
    struct taskpool *pool = worker->pool;
    struct task *first, *last;
    size_t victim = pool->options.steal->choose(&pool->ring, worker->number, &worker->random, me);
    if (victim == worker->number)
        return NULL;
    uint32_t count = taskqueue_take_half(&pool->ring.queue[victim], &first, &last, me);
    if (!count)
        return NULL;
    COUNT(me, steals, count);
    if (count > 1)
        wake_takers(pool, worker->number,
                    taskqueue_put_chain(worker->queue, first->next, last, count - 1, me));
    return first;
}

static struct task *find(struct worker *worker, struct counter_block *me) {
    struct task *task = taskqueue_take(worker->queue, me);
    return task || !worker->pool->options.steal->choose ? task : steal(worker, me);
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

/* After an empty look, so many in a row: whether it slept. */
static int back_off(const struct taskpool *pool, uint64_t looks, struct counter_block *me) {
    const struct taskpool_options *options = &pool->options;
    if (!options->steal->backs_off || looks % options->backoff_looks)
        return 0;
    const struct timespec time = {options->backoff_ns / 1000000000, options->backoff_ns % 1000000000};
    COUNT(me, sleeps, 1);
    nanosleep(&time, NULL);
    return 1;
}

static void spin_for_tasks(struct worker *worker, struct counter_block *me) {
    const struct timespec nap = {0, 1000000};
    int64_t since = clock_now();
    uint64_t turns = 0;
    for (;;) {
        int ending = atomic_load(&worker->pool->ending), slept = 0;
        struct task *task = find(worker, me);
        if (!task) {
            if (ending)
                return;
            COUNT(me, spins, 1);
            slept = back_off(worker->pool, ++turns, me);
        }
        if (task ? turns : slept || !(turns % SPINS_A_LOOK)) {
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
    const struct taskpool *pool = worker->pool;
    const struct stealing_rule *rule = pool->options.steal;
    if (taskqueue_depth(worker->queue) || atomic_load(&pool->ending))
        return 1;
    if (rule->anywhere)
        return stealing_longest(&pool->ring, worker->number) != worker->number;
    return rule->choose && ring_holds_two(&pool->ring, ring_next(&pool->ring, worker->number));
}

/* A semaphore that is free costs no sleep, so `sleeps` is exact. */
static void sleep_until_woken(struct worker *worker, struct counter_block *me) {
    atomic_fetch_add(&worker->pool->idlers, 1);
    atomic_store(&worker->idle, 1);
    if (could_take(worker) && atomic_exchange(&worker->idle, 0)) {
        atomic_fetch_sub(&worker->pool->idlers, 1);
        return;
    }
    if (!sem_trywait(&worker->wakeup))
        return;
    int64_t start = clock_now();
    while (sem_wait(&worker->wakeup))
        ;
    COUNT(me, sleeps, 1);
    COUNT(me, wait_ns, clock_now() - start);
}

static void sleep_for_tasks(struct worker *worker, struct counter_block *me) {
    const struct taskpool_options *options = &worker->pool->options;
    uint32_t patience = options->steal->backs_off ? options->backoff_looks : 1, looks = 0;
    for (;;) {
        int ending = atomic_load(&worker->pool->ending);
        struct task *task = find(worker, me);
        if (task) {
            wake_successor(worker);
            run(worker->pool, task, me);
            looks = 0;
        } else if (ending) {
            return;
        } else if (++looks < patience) {
            COUNT(me, spins, 1);
        } else {
            sleep_until_woken(worker, me);
            looks = 0;
        }
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct counter_block *me = counters_claim(worker->counters, ROLE_WORKER);
    taskqueue_show(worker->queue, me);
    prctl(PR_SET_TIMERSLACK, 1L); /* a thief that backs off sleeps no longer than it is told */
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
    size_t number = random_below(&job->random, pool->ring.count);
    struct task *tasks = job->tasks; /* the job itself may be gone once its last task is put */
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] = (struct task){NULL, job, i};
        wake_takers(pool, number, taskqueue_put(&pool->ring.queue[number], &tasks[i], me));
        number = ring_next(&pool->ring, number);
    }
    return 0;
}

int taskpool_create(const struct taskpool_options *options, struct taskpool **out) {
    size_t count = options->workers;
    struct taskpool *pool = aligned_alloc(_Alignof(struct taskpool), sizeof(*pool));
    struct worker *worker = aligned_alloc(_Alignof(struct worker), count * sizeof(*worker));
    struct taskqueue *queue = aligned_alloc(_Alignof(struct taskqueue), count * sizeof(*queue));
    if (!pool || !worker || !queue) {
        free(pool);
        free(worker);
        free(queue);
        return -ENOMEM;
    }
    *pool = (struct taskpool){.options = *options, .ring = {queue, count}, .worker = worker};
    if (count == 1)
        pool->options.steal = stealing_find("none");
    for (size_t i = 0; i < count; i++) {
        taskqueue_create(&queue[i]);
        worker[i] = (struct worker){.pool = pool, .number = i, .queue = &queue[i]};
        random_seed(&worker[i].random, 0x74686965, i);
        sem_init(&worker[i].wakeup, 0, 0);
    }
    *out = pool;
    return 0;
}

void taskpool_destroy(struct taskpool *pool) {
    for (size_t i = 0; i < pool->ring.count; i++) {
        sem_destroy(&pool->worker[i].wakeup);
        taskqueue_destroy(&pool->ring.queue[i]);
    }
    free(pool->ring.queue);
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
