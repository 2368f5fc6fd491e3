/* Threads of connections split each request into tasks over the queues of a fixed set of workers; workers can
 * steal.
 *
 * Who owns what. The acceptor owns a connection until its thread is started, then that thread does, with
 * blocking calls, until the connection ends. A request's tasks are an array of the connection, used again for
 * every request: the thread fills it, puts the tasks one by one, round robin from a random queue, and touches
 * neither it nor the session until all have run. A task is in exactly one place: in one queue, or in the
 * hands of one worker. Queues hand it over under their locks, so none is lost or run twice.
 *
 * The end of a request. A worker's last touch of a task, its connection and its session is the one that the
 * connection's thread waits for, because that thread may free all of them next. wait=spin: the thread polls
 * `remaining`; every worker leaves with its decrement. wait=block: the thread looks at the semaphore `done`
 * only; a worker leaves with its decrement, or, when that was the last, with its post.
 *
 * Locks. Queue locks and the list's lock (`lock`) are leaves: nothing is ever taken under one of them. A
 * thief takes its share out under the victim's lock, lets go, and puts it into its own queue under its own.
 *
 * Waiting. wait=spin, as published: workers poll their queue under its lock without pause; only `ending`
 * stops them. wait=block: a worker about to sleep sets `idle`, then looks once more at all that it could
 * take, then waits for its semaphore. Whoever makes work first changes a depth, then looks at `idle`; if it
 * is set, clears it and posts. All four accesses are sequentially consistent, so either the worker sees the
 * depth or the other sees the worker idle; only the one who clears `idle` posts, so posts and waits pair off.
 *     What worker i could take is its own queue when that is not empty and, with steal=next, queue i+1 when
 * that holds two or more. Depths grow in two places only: a connection's thread puts a task, a thief puts its
 * share into its own queue. Both wake the queue's owner (a thief is awake), and worker i−1 when the depth has
 * become two or more. So no worker sleeps while there is something that it could take. Semaphores are tried
 * before they are slept on, so `sleeps` is exact.
 *
 * Ended threads. Each joins the one that ended before it, so at most one waits to be joined, and nothing
 * piles up.
 *
 * Stop: the acceptor is woken by eventfd and joined, so the list of connections can only shrink; every socket
 * is shut down, which ends blocking calls; `cut` lets workers skip what is queued (nobody is there to read
 * the answers). Workers go on until the last connection's thread has ended, so all tasks come back; only then
 * `ending` is set.
 *
 * Counters. wait_ns of a connection's thread is the time it waited for its tasks, of a worker the time
 * without one. */
#include "../core/clock.h"
#include "../core/conn.h"
#include "../core/registry.h"
#include "../core/sock.h"
#include "../core/taskqueue.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_WORKERS = 256,
    /* Every thread needs a block of its own, or counts are lost. */
    MOST_CONNECTIONS = COUNTER_BLOCKS - MOST_WORKERS - 8,
    STACK_SIZE = 256 << 10,
    SLEEP_NS = 5000,      /* a poll that took longer has slept; asking first would cost a system call */
    ACCEPT_PAUSE_MS = 10, /* out of descriptors or threads: the listener is left alone for so long */
    SPINS_A_LOOK = 1024,  /* turns between two looks at the clock */
};

static const struct knob knobs[] = {
    {"workers", KNOB_INT, "4", "1:256", "threads", "threads that run tasks, each with its queue"},
    {"chunk", KNOB_INT, "20", "1:1000000", "units", "a larger request is split into tasks of so many units"},
    {"steal", KNOB_CHOICE, "none", "none|next", "",
     "what an idle worker does: nothing, or take half of the next queue if it holds two tasks or more"},
    {"wait", KNOB_CHOICE, "block", "spin|block", "",
     "poll for work and results (as published), or sleep until woken"},
    {"accept", KNOB_CHOICE, "thread", "thread", "", "a thread for each connection"},
    {0},
};

struct worker {
    struct taskqueue queue;
    struct queues_server *server;
    size_t number;
    _Atomic int idle;
    sem_t wakeup;
    pthread_t thread;
};

struct queues_server {
    struct server_env env;
    int spin, steal;
    uint32_t chunk;
    int wake;
    _Atomic int stopping, cut, ending;
    pthread_attr_t small_stack;
    pthread_t acceptor;
    uint64_t serial; /* connections so far; the acceptor's */
    pthread_mutex_t lock;
    pthread_cond_t none_live;
    struct conn_list conns; /* under lock, as the rest of this group */
    size_t live;            /* threads of connections that have not set `ended` yet */
    int any_ended;
    pthread_t ended; /* the last to end, not joined yet */
    size_t workers;
    struct worker *worker;
};

struct connection {
    struct queues_server *server;
    struct conn *conn;
    struct random random;
    struct task *tasks;
    uint32_t capacity;
    _Atomic uint32_t remaining;
    sem_t done;
};

static int threads(const struct config *config) {
    return (int)config_int(config, "workers");
}

static struct worker *neighbour(struct worker *worker, size_t steps) {
    struct queues_server *server = worker->server;
    return &server->worker[(worker->number + steps) % server->workers];
}

static void wake(struct worker *worker) {
    if (atomic_load(&worker->idle) && atomic_exchange(&worker->idle, 0))
        sem_post(&worker->wakeup);
}

/* To be called after tasks were put into the worker's queue. */
static void wake_takers(struct worker *worker, uint32_t depth) {
    struct queues_server *server = worker->server;
    if (server->spin)
        return;
    wake(worker);
    if (server->steal && depth >= 2)
        wake(neighbour(worker, server->workers - 1));
}

static struct task *steal(struct worker *worker, struct counter_block *me) {
    struct worker *victim = neighbour(worker, 1);
    struct task *first, *last;
    COUNT(me, steals_tried, 1);
    if (taskqueue_depth(&victim->queue) < 2)
        return NULL;
    uint32_t count = taskqueue_take_half(&victim->queue, &first, &last, me);
    if (!count)
        return NULL;
    COUNT(me, steals, count);
    if (count > 1)
        wake_takers(worker, taskqueue_put_chain(&worker->queue, first->next, last, count - 1, me));
    return first;
}

static struct task *find(struct worker *worker, struct counter_block *me) {
    struct task *task = taskqueue_take(&worker->queue, me);
    return task || !worker->server->steal ? task : steal(worker, me);
}

/* The time when it was done. */
static int64_t run(struct queues_server *server, struct task *task, struct counter_block *me) {
    struct connection *connection = task->job;
    struct conn *conn = connection->conn;
    int64_t now = clock_now();
    if (!atomic_load_explicit(&server->cut, memory_order_relaxed)) {
        int64_t start = now;
        conn->service->run(conn->state, conn->session, task->index, server->chunk, me);
        now = clock_now();
        COUNT(me, busy_ns, now - start);
        COUNT(me, tasks, 1);
    }
    if (atomic_fetch_sub_explicit(&connection->remaining, 1, memory_order_acq_rel) == 1 && !server->spin)
        sem_post(&connection->done);
    counters_publish(me, now);
    return now;
}

static void spin_for_tasks(struct worker *worker, struct counter_block *me) {
    struct queues_server *server = worker->server;
    int64_t since = clock_now();
    uint64_t turns = 0;
    while (!atomic_load_explicit(&server->ending, memory_order_relaxed)) {
        struct task *task = find(worker, me);
        if (!task) {
            COUNT(me, spins, 1);
            turns++;
        }
        if (task ? turns : !(turns % SPINS_A_LOOK)) {
            int64_t now = clock_now();
            COUNT(me, wait_ns, now - since);
            counters_publish(me, now);
            since = now;
        }
        if (task) {
            since = run(server, task, me);
            turns = 0;
        }
    }
}

static int could_take(struct worker *worker) {
    struct queues_server *server = worker->server;
    return taskqueue_depth(&worker->queue) || atomic_load(&server->ending) ||
           (server->steal && taskqueue_depth(&neighbour(worker, 1)->queue) >= 2);
}

static void sleep_for_tasks(struct worker *worker, struct counter_block *me) {
    for (;;) {
        struct task *task = find(worker, me);
        if (task) {
            run(worker->server, task, me);
            continue;
        }
        if (atomic_load(&worker->server->ending))
            return;
        atomic_store(&worker->idle, 1);
        if (could_take(worker) && atomic_exchange(&worker->idle, 0))
            continue;
        if (!sem_trywait(&worker->wakeup))
            continue;
        int64_t start = clock_now();
        while (sem_wait(&worker->wakeup))
            ;
        COUNT(me, sleeps, 1);
        COUNT(me, wait_ns, clock_now() - start);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct counter_block *me = counters_claim(worker->server->env.counters, ROLE_WORKER);
    taskqueue_show(&worker->queue, me);
    if (worker->server->spin)
        spin_for_tasks(worker, me);
    else
        sleep_for_tasks(worker, me);
    counters_release(me);
    return NULL;
}

/* Makes room in the connection's array. */
static int reserve(struct connection *connection, uint32_t count) {
    if (count <= connection->capacity)
        return 0;
    struct task *tasks = realloc(connection->tasks, count * sizeof(*tasks));
    if (!tasks)
        return -ENOMEM;
    connection->tasks = tasks;
    connection->capacity = count;
    return 0;
}

static void await_tasks(struct connection *connection, struct counter_block *me) {
    int64_t start = clock_now();
    if (connection->server->spin) {
        uint64_t turns = 0;
        while (atomic_load_explicit(&connection->remaining, memory_order_acquire))
            if (!(++turns % SPINS_A_LOOK))
                counters_publish(me, clock_now());
        COUNT(me, spins, turns);
    } else if (sem_trywait(&connection->done)) {
        COUNT(me, sleeps, 1);
        while (sem_wait(&connection->done))
            ;
    }
    COUNT(me, wait_ns, clock_now() - start);
}

/* Runs the request by way of the queues and writes the reply. */
static int answer(struct connection *connection, struct counter_block *me) {
    struct queues_server *server = connection->server;
    struct conn *conn = connection->conn;
    uint32_t count = conn->service->split(conn->state, conn->session, server->chunk);
    int rc = reserve(connection, count);
    if (rc) {
        COUNT(me, errors, 1);
        return rc;
    }
    atomic_store(&connection->remaining, count);
    size_t at = random_below(&connection->random, server->workers);
    for (uint32_t i = 0; i < count; i++) {
        struct worker *worker = &server->worker[at];
        connection->tasks[i] = (struct task){NULL, connection, i};
        wake_takers(worker, taskqueue_put(&worker->queue, &connection->tasks[i], me));
        at = at + 1 == server->workers ? 0 : at + 1;
    }
    await_tasks(connection, me);
    return atomic_load(&server->cut) ? -ECANCELED : conn_reply(conn, me);
}

/* Reads until a request is whole, or answers one. Negative: the connection has ended. */
static int turn(struct connection *connection, struct counter_block *me) {
    struct conn *conn = connection->conn;
    int rc = conn_next(conn);
    if (rc > 0) {
        rc = answer(connection, me);
        return rc ? rc : conn_flush(conn, 0);
    }
    if (rc < 0) {
        COUNT(me, errors, 1);
        conn->closing = 1;
    }
    rc = conn_flush(conn, 0);
    counters_publish(me, clock_now());
    return rc < 0 ? rc : conn_fill(conn, 0);
}

static void delist(struct queues_server *server, struct conn *conn) {
    pthread_mutex_lock(&server->lock);
    conn_list_remove(&server->conns, conn);
    pthread_mutex_unlock(&server->lock);
}

static void release(struct connection *connection) {
    conn_destroy(connection->conn);
    sem_destroy(&connection->done);
    free(connection->tasks);
    free(connection);
}

/* The last words of a connection's thread. */
static void leave(struct queues_server *server) {
    pthread_mutex_lock(&server->lock);
    int any_before = server->any_ended;
    pthread_t before = server->ended;
    server->any_ended = 1;
    server->ended = pthread_self();
    if (!--server->live)
        pthread_cond_signal(&server->none_live);
    pthread_mutex_unlock(&server->lock);
    if (any_before)
        pthread_join(before, NULL);
}

static void *attend(void *argument) {
    struct connection *connection = argument;
    struct queues_server *server = connection->server;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_CONNECTION);
    while (!atomic_load(&server->stopping) && turn(connection, me) >= 0)
        ;
    delist(server, connection->conn);
    release(connection);
    COUNT(me, closed, 1);
    counters_release(me);
    leave(server);
    return NULL;
}

static int prepare(struct queues_server *server, int fd, struct connection **out) {
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        close(fd);
        return -ENOMEM;
    }
    int rc = conn_create(&server->env, fd, &connection->conn);
    if (rc) {
        free(connection);
        return rc;
    }
    connection->server = server;
    sem_init(&connection->done, 0, 0);
    random_seed(&connection->random, 0x717565756573, server->serial++);
    *out = connection;
    return 0;
}

/* Starts the thread of a new connection; closes it on failure. */
static int admit(struct queues_server *server, int fd) {
    struct connection *connection;
    pthread_t thread;
    pthread_mutex_lock(&server->lock);
    int full = server->live >= MOST_CONNECTIONS;
    pthread_mutex_unlock(&server->lock);
    if (full) {
        close(fd);
        return -EUSERS;
    }
    int rc = prepare(server, fd, &connection);
    if (rc)
        return rc;
    pthread_mutex_lock(&server->lock);
    conn_list_add(&server->conns, connection->conn);
    server->live++;
    pthread_mutex_unlock(&server->lock);
    rc = -pthread_create(&thread, &server->small_stack, attend, connection);
    if (!rc)
        return 0;
    pthread_mutex_lock(&server->lock);
    conn_list_remove(&server->conns, connection->conn);
    server->live--;
    pthread_mutex_unlock(&server->lock);
    release(connection);
    return rc;
}

static void *accept_loop(void *argument) {
    struct queues_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_ACCEPTOR);
    while (!atomic_load(&server->stopping)) {
        int64_t start = clock_now();
        int fd = sock_accept_wait(server->env.listener, server->wake);
        int64_t now = clock_now();
        COUNT(me, polls, 1);
        if (now - start > SLEEP_NS) {
            COUNT(me, sleeps, 1);
            COUNT(me, wait_ns, now - start);
        }
        counters_publish(me, now);
        if (fd == -ECANCELED)
            break;
        int rc = fd < 0 ? fd : admit(server, fd);
        if (!rc) {
            COUNT(me, accepted, 1);
        } else {
            COUNT(me, errors, 1);
            if (rc != -EUSERS)
                poll(&(struct pollfd){server->wake, POLLIN, 0}, 1, ACCEPT_PAUSE_MS);
        }
    }
    counters_release(me);
    return NULL;
}

static void destroy(void *self) {
    struct queues_server *server = self;
    for (size_t i = 0; i < server->workers; i++) {
        sem_destroy(&server->worker[i].wakeup);
        taskqueue_destroy(&server->worker[i].queue);
    }
    free(server->worker);
    pthread_attr_destroy(&server->small_stack);
    pthread_cond_destroy(&server->none_live);
    pthread_mutex_destroy(&server->lock);
    if (server->wake >= 0)
        close(server->wake);
    free(server);
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    size_t workers = (size_t)config_int(env->config, "workers");
    struct queues_server *server = calloc(1, sizeof(*server));
    struct worker *worker = aligned_alloc(_Alignof(struct worker), workers * sizeof(*worker));
    if (!server || !worker) {
        free(server);
        free(worker);
        return -ENOMEM;
    }
    memset(worker, 0, workers * sizeof(*worker));
    server->env = *env;
    server->spin = config_is(env->config, "wait", "spin");
    server->steal = config_is(env->config, "steal", "next") && workers > 1;
    server->chunk = (uint32_t)config_int(env->config, "chunk");
    server->workers = workers;
    server->worker = worker;
    for (size_t i = 0; i < workers; i++) {
        taskqueue_create(&worker[i].queue);
        worker[i].server = server;
        worker[i].number = i;
        sem_init(&worker[i].wakeup, 0, 0);
    }
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->none_live, NULL);
    int rc = -pthread_attr_init(&server->small_stack);
    if (!rc)
        rc = -pthread_attr_setstacksize(&server->small_stack, STACK_SIZE);
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake < 0)
        rc = -errno;
    if (rc) {
        destroy(server);
        return rc;
    }
    *out = server;
    return 0;
}

static int end_workers(struct queues_server *server, size_t count) {
    int rc = 0;
    atomic_store(&server->ending, 1);
    for (size_t i = 0; i < count; i++)
        wake(&server->worker[i]);
    for (size_t i = 0; i < count; i++) {
        int one = -pthread_join(server->worker[i].thread, NULL);
        rc = rc ? rc : one;
    }
    return rc;
}

static int start(void *self) {
    struct queues_server *server = self;
    for (size_t i = 0; i < server->workers; i++) {
        int rc = -pthread_create(&server->worker[i].thread, NULL, work, &server->worker[i]);
        if (rc) {
            end_workers(server, i);
            return rc;
        }
    }
    int rc = -pthread_create(&server->acceptor, NULL, accept_loop, server);
    if (rc)
        end_workers(server, server->workers);
    return rc;
}

static int stop(void *self) {
    struct queues_server *server = self;
    atomic_store(&server->stopping, 1);
    if (eventfd_write(server->wake, 1))
        return -errno;
    int rc = -pthread_join(server->acceptor, NULL);
    pthread_mutex_lock(&server->lock);
    for (struct conn *conn = server->conns.first; conn; conn = conn->next)
        shutdown(conn->fd, SHUT_RDWR);
    atomic_store(&server->cut, 1);
    while (server->live)
        pthread_cond_wait(&server->none_live, &server->lock);
    pthread_mutex_unlock(&server->lock);
    if (server->any_ended)
        pthread_join(server->ended, NULL);
    int ended = end_workers(server, server->workers);
    return rc ? rc : ended;
}

static const struct server_ops queues_ops = {
    .name = "queues",
    .summary = "threads of connections split requests into tasks over per-worker queues",
    .knobs = knobs,
    .max_connections = MOST_CONNECTIONS,
    .threads = threads,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(queues_ops);
