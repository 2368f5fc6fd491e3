/* Requests are split into tasks over the queues of a fixed set of workers (core/taskpool.h), which can steal.
 *
 * accept=thread: a thread for each connection reads with blocking calls, submits a request, waits for its
 * tasks and writes the reply. It owns the connection from its start on, and lends the session to the workers
 * while it waits. It waits as the workers do: wait=spin (as published) polls the count of remaining tasks,
 * wait=block sleeps on the semaphore `done`, which the last task's worker posts and then forgets.
 *
 * accept=epoll: the acceptor watches all connections and reads and submits what is ready; the worker that
 * ends a request's last task writes the reply and arms the connection again. Every event is one-shot, so a
 * connection is either armed (the acceptor's), or in the acceptor's hands, or lent to the workers. Only the
 * acceptor submits: a worker that sees more input, or output that the peer does not take, arms the connection
 * for output and leaves the rest to the acceptor. `wait` then says how the workers wait; the acceptor sleeps
 * in epoll_wait. This is the default: no request costs the sleeps of a thread of its own.
 *
 * The list of connections, and how many threads live, are under `lock`, a leaf: nothing is taken under it. A
 * connection leaves the list before it is freed.
 *
 * Threads of connections are detached, so that nothing of them is left when they end, however many came. The
 * last thing that one does with the server is to count itself out of `live` under `lock`, which the stopper
 * must take.
 *
 * Stop: the pool is cut. Tasks that wait are not run any more, but they count down, so that every
 * connection's thread comes back and ends without a reply; who spins takes naps from then on, or a thousand
 * spinners would keep the workers from the processors. The acceptor is woken and joined; from then on the
 * list only shrinks and, with accept=epoll, nothing is submitted. Every listed socket is shut down, which
 * ends blocking calls (and a thread looks whether the pool is cut, as a socket that is shut down still yields
 * what a peer goes on sending). When the last thread has gone, the workers are ended, and the stopper, alone,
 * frees what is left in the list. Tasks that run are waited for.
 *
 * Counters: wait_ns of a connection's thread is the time it waited for its tasks, `spins` its looks at them.
 */
#include "../core/acceptor.h"
#include "../core/clock.h"
#include "../core/conn.h"
#include "../core/registry.h"
#include "../core/taskpool.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"workers", KNOB_INT, "4", "1:256", "threads", "threads that run tasks, each with its queue"},
    {"chunk", KNOB_INT, "20", "1:1000000", "units", "a larger request is split into tasks of so many units"},
    {"steal", KNOB_CHOICE, "none", STEALING_RULES, "",
     "whom an idle worker robs of half its tasks if it holds two or more: nobody, the next one, the next one "
     "with "
     "sleeps between looks, one at random, or the one with most"},
    {"backoff_looks", KNOB_INT, "16", "1:100", "looks",
     "steal=next_backoff: an idle worker sleeps after so many looks that found nothing"},
    {"backoff_sleep", KNOB_REAL, "0.0001", "0.000001:0.1", "s",
     "steal=next_backoff with wait=spin: for so long; with wait=block it sleeps until woken"},
    {"wait", KNOB_CHOICE, "block", "spin|block", "",
     "poll for work and results (as published), or sleep until woken"},
    {"accept", KNOB_CHOICE, "epoll", "epoll|thread", "",
     "who reads requests: one thread that watches all connections, or a thread for each (as published)"},
    {0},
};

enum {
    /* A thread without a counter block of its own would lose counts: blocks for 256 workers and the acceptor
       are left. */
    MOST_CONNECTIONS = COUNTER_BLOCKS - 256 - 1,
    STACK_SIZE = 256 << 10,
    SPINS_A_LOOK = 1024, /* turns between two looks at the clock */
    BATCH = 256,
};

struct queues_server {
    struct server_env env;
    int spin, by_thread;
    struct taskpool *pool;
    struct acceptor acceptor;
    struct counter_block *accept_block; /* written by the acceptor, read after its join */
    pthread_t accepting;
    pthread_attr_t attributes; /* of threads of connections */
    uint64_t serial;           /* connections so far; the acceptor's */
    pthread_mutex_t lock;
    pthread_cond_t none_live;
    struct conn_list conns; /* under lock, as the rest */
    size_t live;            /* threads of connections */
};

struct connection {
    struct queues_server *server;
    struct conn *conn;
    struct job job;
    sem_t done;
};

static int threads(const struct config *config) {
    return (int)config_int(config, "workers");
}

static void enlist(struct queues_server *server, struct conn *conn) {
    pthread_mutex_lock(&server->lock);
    conn_list_add(&server->conns, conn);
    pthread_mutex_unlock(&server->lock);
}

/* Takes the connection off the list and frees it. */
static void end(struct connection *connection, struct counter_block *me) {
    struct queues_server *server = connection->server;
    pthread_mutex_lock(&server->lock);
    conn_list_remove(&server->conns, connection->conn);
    pthread_mutex_unlock(&server->lock);
    conn_destroy(connection->conn);
    job_free(&connection->job);
    sem_destroy(&connection->done);
    free(connection);
    COUNT(me, closed, 1);
}

/* accept=thread, wait=block: the last task has run. */
static void post_done(struct job *job, struct counter_block *me) {
    (void)me;
    struct connection *connection = job->conn->owner;
    sem_post(&connection->done);
}

static void await_tasks(struct connection *connection, struct counter_block *me) {
    int64_t start = clock_now();
    if (connection->server->spin) {
        const struct timespec nap = {0, 1000000};
        uint64_t turns = 0;
        while (atomic_load_explicit(&connection->job.remaining, memory_order_acquire))
            if (!(++turns % SPINS_A_LOOK)) {
                counters_publish(me, clock_now());
                if (taskpool_is_cut(connection->server->pool))
                    nanosleep(&nap, NULL);
            }
        COUNT(me, spins, turns);
    } else if (sem_trywait(&connection->done)) {
        COUNT(me, sleeps, 1);
        while (sem_wait(&connection->done))
            ;
    }
    COUNT(me, wait_ns, clock_now() - start);
}

/* Runs the request by way of the pool and writes the reply. */
static int answer(struct connection *connection, struct counter_block *me) {
    struct taskpool *pool = connection->server->pool;
    int rc = taskpool_submit(pool, &connection->job, me);
    if (rc) {
        COUNT(me, errors, 1);
        return rc;
    }
    await_tasks(connection, me);
    return taskpool_is_cut(pool) ? -ECANCELED : conn_reply(connection->conn, me);
}

/* Answers a request, or reads until one may be whole. Negative: the connection has ended. */
static int turn(struct connection *connection, struct counter_block *me) {
    struct conn *conn = connection->conn;
    int whole = conn_next(conn), rc = 0;
    if (whole > 0) {
        rc = answer(connection, me);
    } else if (whole < 0) {
        COUNT(me, errors, 1);
        conn->closing = 1;
    }
    if (rc >= 0)
        rc = conn_flush(conn, 0);
    counters_publish(me, clock_now());
    return rc < 0 || whole > 0 ? rc : conn_fill(conn, 0);
}

static void leave(struct queues_server *server) {
    pthread_mutex_lock(&server->lock);
    if (!--server->live)
        pthread_cond_signal(&server->none_live);
    pthread_mutex_unlock(&server->lock);
}

static void *attend(void *argument) {
    struct connection *connection = argument;
    struct queues_server *server = connection->server;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_CONNECTION);
    while (!taskpool_is_cut(server->pool) && turn(connection, me) >= 0)
        ;
    end(connection, me);
    counters_release(me);
    leave(server);
    return NULL;
}

/* accept=thread: starts the thread of a new connection. */
static int employ(struct connection *connection) {
    struct queues_server *server = connection->server;
    pthread_t thread;
    pthread_mutex_lock(&server->lock);
    int full = server->live >= MOST_CONNECTIONS;
    server->live += !full;
    pthread_mutex_unlock(&server->lock);
    if (full)
        return -EUSERS;
    int rc = -pthread_create(&thread, &server->attributes, attend, connection);
    if (rc)
        leave(server);
    return rc;
}

/* accept=epoll: gives the connection to whoever is told of one of the events. */
static void arm(struct connection *connection, uint32_t events, struct counter_block *me) {
    if (acceptor_arm(&connection->server->acceptor, connection->conn->fd, events, connection))
        end(connection, me);
}

/* accept=epoll: the last task has run. Input that was read already is announced by no socket; that the socket
 * takes output is, at once, and leads the acceptor to it. A job that was cut short has no reply; its
 * connection is left to the stopper. */
static void reply_and_arm(struct job *job, struct counter_block *me) {
    struct conn *conn = job->conn;
    struct connection *connection = conn->owner;
    if (taskpool_is_cut(connection->server->pool))
        return;
    int rc = conn_reply(conn, me);
    if (!rc)
        rc = conn_flush(conn, MSG_DONTWAIT);
    if (rc < 0)
        end(connection, me);
    else
        arm(connection, rc && !buffer_length(&conn->in) ? EPOLLIN : EPOLLOUT, me);
}

/* accept=epoll, the acceptor: flushes, reads once, and submits a request when it is whole. */
static void advance(struct connection *connection, struct counter_block *me) {
    struct conn *conn = connection->conn;
    int filled = 0, rc = conn_flush(conn, MSG_DONTWAIT);
    while (rc > 0) {
        int whole = conn_next(conn);
        if (whole > 0) {
            rc = taskpool_submit(connection->server->pool, &connection->job, me);
            if (!rc)
                return;
        }
        if (whole) {
            COUNT(me, errors, 1);
            conn->closing = 1;
        }
        rc = conn_flush(conn, MSG_DONTWAIT);
        if (rc > 0 && (filled++ || !(rc = conn_fill(conn, MSG_DONTWAIT)))) {
            arm(connection, EPOLLIN, me);
            return;
        }
    }
    if (rc < 0)
        end(connection, me);
    else
        arm(connection, EPOLLOUT, me);
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
    connection->conn->owner = connection;
    sem_init(&connection->done, 0, 0);
    job_init(&connection->job, connection->conn, server->serial++,
             !server->by_thread ? reply_and_arm
             : server->spin     ? NULL
                                : post_done);
    enlist(server, connection->conn);
    *out = connection;
    return 0;
}

static void admit(struct queues_server *server, int fd, struct counter_block *me) {
    struct connection *connection;
    if (prepare(server, fd, &connection)) {
        COUNT(me, errors, 1);
        return;
    }
    COUNT(me, accepted, 1);
    int rc =
        server->by_thread ? employ(connection) : acceptor_add(&server->acceptor, fd, EPOLLIN, connection);
    if (!rc)
        return;
    COUNT(me, errors, 1);
    end(connection, me);
    if (rc == -EAGAIN)
        acceptor_pause(&server->acceptor);
}

static void watch_connections(struct queues_server *server, struct counter_block *me) {
    struct epoll_event events[BATCH];
    int count, fd;
    while ((count = acceptor_wait(&server->acceptor, events, BATCH, me)) >= 0) {
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                advance(events[i].data.ptr, me);
            else
                for (int taken = 0; taken < BATCH && (fd = acceptor_take(&server->acceptor, me)) >= 0;
                     taken++)
                    admit(server, fd, me);
        }
    }
}

static void *accept_loop(void *argument) {
    struct queues_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_ACCEPTOR);
    server->accept_block = me;
    int fd;
    if (!server->by_thread)
        watch_connections(server, me);
    else
        while ((fd = acceptor_next(&server->acceptor, me)) >= 0)
            admit(server, fd, me);
    counters_release(me);
    return NULL;
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct queues_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->env = *env;
    server->spin = config_is(env->config, "wait", "spin");
    server->by_thread = config_is(env->config, "accept", "thread");
    struct taskpool_options options = {
        .workers = (size_t)config_int(env->config, "workers"),
        .chunk = (uint32_t)config_int(env->config, "chunk"),
        .spin = server->spin,
        .steal = stealing_find(config_text(env->config, "steal")),
        .backoff_looks = (uint32_t)config_int(env->config, "backoff_looks"),
        .backoff_ns = (int64_t)(config_real(env->config, "backoff_sleep") * 1e9),
    };
    int rc = taskpool_create(&options, &server->pool);
    if (rc)
        goto no_pool;
    rc = acceptor_create(&server->acceptor, env->listener, !server->by_thread);
    if (rc)
        goto no_acceptor;
    rc = -pthread_attr_init(&server->attributes);
    if (rc)
        goto no_attributes;
    pthread_attr_setstacksize(&server->attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&server->attributes, PTHREAD_CREATE_DETACHED);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->none_live, NULL);
    *out = server;
    return 0;
no_attributes:
    acceptor_destroy(&server->acceptor);
no_acceptor:
    taskpool_destroy(server->pool);
no_pool:
    free(server);
    return rc;
}

static int start(void *self) {
    struct queues_server *server = self;
    int rc = taskpool_start(server->pool, server->env.counters);
    if (rc)
        return rc;
    rc = -pthread_create(&server->accepting, NULL, accept_loop, server);
    if (rc)
        taskpool_end(server->pool);
    return rc;
}

static int stop(void *self) {
    struct queues_server *server = self;
    taskpool_cut(server->pool);
    int rc = acceptor_wake(&server->acceptor);
    if (rc)
        return rc;
    rc = -pthread_join(server->accepting, NULL);
    pthread_mutex_lock(&server->lock);
    for (struct conn *conn = server->conns.first; conn; conn = conn->next)
        shutdown(conn->fd, SHUT_RDWR);
    while (server->live)
        pthread_cond_wait(&server->none_live, &server->lock);
    pthread_mutex_unlock(&server->lock);
    int ended = taskpool_end(server->pool);
    while (server->conns.first)
        end(server->conns.first->owner, server->accept_block);
    return rc ? rc : ended;
}

static void destroy(void *self) {
    struct queues_server *server = self;
    pthread_cond_destroy(&server->none_live);
    pthread_mutex_destroy(&server->lock);
    pthread_attr_destroy(&server->attributes);
    acceptor_destroy(&server->acceptor);
    taskpool_destroy(server->pool);
    free(server);
}

static const struct server_ops queues_ops = {
    .name = "queues",
    .summary = "requests are split into tasks over per-worker queues",
    .knobs = knobs,
    .max_connections = MOST_CONNECTIONS,
    .threads = threads,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(queues_ops);
