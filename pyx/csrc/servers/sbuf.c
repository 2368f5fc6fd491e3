/* An acceptor hands connections to a fixed pool of threads through a bounded buffer.
 *
 * hold=connection: the acceptor inserts each connection once; the worker that removes it keeps it, with
 * blocking calls, until it ends. Connections beyond workers + queue_slots wait, the first of them in the
 * acceptor's hands, the rest in the listener's queue.
 *
 * hold=request: the acceptor watches idle connections by epoll and inserts the ready ones; the worker that
 * removes one reads, serves the whole requests that are there and gives the connection back by arming it
 * again, for input, or for output while the peer does not read. A worker never blocks on a socket.
 *
 * Who owns a connection: one thread at any time. With hold=request every event is one-shot, so a connection
 * is either armed (the acceptor's), or disarmed in the acceptor's batch or in the buffer, or a worker's. The
 * worker's epoll_ctl is its last touch, and the acceptor, while a connection is its own, does not look into
 * it. Only the owner frees a connection, so no event can name one that is gone.
 *
 * The list of all connections has its own lock (list_lock), held for a few instructions, with nothing taken
 * under it. The buffer's semaphores are never waited for under it. A connection leaves the list before it is
 * freed.
 *
 * Stop: set `stopping`, close the buffer (which frees an acceptor that waits for a slot and workers that wait
 * for items), wake the acceptor by eventfd, shut down every listed socket (which ends a worker's blocking
 * call; with hold=request none blocks). The acceptor may still list one more connection: the closed buffer
 * refuses it, so no worker gets it. Work that runs is waited for. The stopper, alone after the joins, frees
 * what is left in the list.
 *
 * Counters: the acceptor's as core/acceptor.h says, and a worker's blocking receive (hold=connection) as
 * core/blocking.h does; semaphores are tried first, which costs nothing, so there sleeps are exact. */
#include "../core/acceptor.h"
#include "../core/blocking.h"
#include "../core/boundedbuf.h"
#include "../core/clock.h"
#include "../core/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

static const struct knob knobs[] = {
    {"workers", KNOB_INT, "4", "1:1024", "threads", "threads that serve"},
    {"queue_slots", KNOB_INT, "64", "1:65536", "connections", "places of the bounded buffer"},
    {"hold", KNOB_CHOICE, "request", "request|connection", "",
     "what a worker keeps a connection for: one request, or until it ends (as published)"},
    {0},
};

enum { BATCH = 256 };

struct sbuf_server {
    struct server_env env;
    int by_request;
    struct acceptor acceptor;
    _Atomic int stopping;
    struct boundedbuf buffer;
    pthread_mutex_t list_lock;
    struct conn_list conns;
    struct counter_block *accept_block; /* written by the acceptor, read after its join */
    pthread_t accepting;
    size_t workers;
    pthread_t worker[];
};

static int threads(const struct config *config) {
    return (int)config_int(config, "workers");
}

static int serves_at_once(const struct config *config) {
    return config_is(config, "hold", "connection") ? threads(config) : 0;
}

static void enlist(struct sbuf_server *server, struct conn *conn) {
    pthread_mutex_lock(&server->list_lock);
    conn_list_add(&server->conns, conn);
    pthread_mutex_unlock(&server->list_lock);
}

static void end(struct sbuf_server *server, struct conn *conn, struct counter_block *me) {
    pthread_mutex_lock(&server->list_lock);
    conn_list_remove(&server->conns, conn);
    pthread_mutex_unlock(&server->list_lock);
    conn_destroy(conn);
    COUNT(me, closed, 1);
}

/* hold=connection: until the connection ends. */
static void serve_connection(struct sbuf_server *server, struct conn *conn, struct counter_block *me) {
    blocking_serve(conn, &server->stopping, me);
    end(server, conn, me);
}

/* hold=request: what is there, then back to the acceptor. */
static void serve_request(struct sbuf_server *server, struct conn *conn, struct counter_block *me) {
    int rc = conn_fill(conn, MSG_DONTWAIT);
    if (rc >= 0)
        rc = conn_serve(conn, MSG_DONTWAIT, me);
    counters_publish(me, clock_now());
    if (rc >= 0)
        rc = acceptor_arm(&server->acceptor, conn->fd, rc ? EPOLLIN : EPOLLOUT, conn);
    if (rc < 0)
        end(server, conn, me);
}

static void *work(void *argument) {
    struct sbuf_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_WORKER);
    struct conn *conn;
    while ((conn = boundedbuf_remove(&server->buffer, me))) {
        if (server->by_request)
            serve_request(server, conn, me);
        else
            serve_connection(server, conn, me);
    }
    counters_release(me);
    return NULL;
}

/* Lists a new connection. NULL: it could not be made, and is closed. */
static struct conn *admit(struct sbuf_server *server, int fd, struct counter_block *me) {
    struct conn *conn;
    if (conn_create(&server->env, fd, &conn)) {
        COUNT(me, errors, 1);
        return NULL;
    }
    COUNT(me, accepted, 1);
    enlist(server, conn);
    return conn;
}

static void accept_connections(struct sbuf_server *server, struct counter_block *me) {
    int fd;
    while ((fd = acceptor_next(&server->acceptor, me)) >= 0) {
        struct conn *conn = admit(server, fd, me);
        if (conn && boundedbuf_insert(&server->buffer, conn, me))
            return;
    }
}

/* Takes and watches the connections that wait, at most BATCH so that a flood of them cannot keep the acceptor
 * from what else is ready. */
static void accept_waiting(struct sbuf_server *server, struct counter_block *me) {
    int fd;
    for (int i = 0; i < BATCH && (fd = acceptor_take(&server->acceptor, me)) >= 0; i++) {
        struct conn *conn = admit(server, fd, me);
        if (conn && acceptor_add(&server->acceptor, fd, EPOLLIN, conn)) {
            COUNT(me, errors, 1);
            end(server, conn, me);
        }
    }
}

static void watch_connections(struct sbuf_server *server, struct counter_block *me) {
    struct epoll_event events[BATCH];
    int count;
    while ((count = acceptor_wait(&server->acceptor, events, BATCH, me)) >= 0) {
        for (int i = 0; i < count; i++) {
            void *tag = events[i].data.ptr;
            if (!tag)
                accept_waiting(server, me);
            else if (boundedbuf_insert(&server->buffer, tag, me))
                return;
        }
    }
}

static void *accept_loop(void *argument) {
    struct sbuf_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_ACCEPTOR);
    server->accept_block = me;
    boundedbuf_show(&server->buffer, me);
    if (server->by_request)
        watch_connections(server, me);
    else
        accept_connections(server, me);
    counters_release(me);
    return NULL;
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    size_t workers = (size_t)config_int(env->config, "workers");
    struct sbuf_server *server = calloc(1, sizeof(*server) + workers * sizeof(server->worker[0]));
    if (!server)
        return -ENOMEM;
    server->env = *env;
    server->workers = workers;
    server->by_request = config_is(env->config, "hold", "request");
    int rc = boundedbuf_create(&server->buffer, (size_t)config_int(env->config, "queue_slots"));
    if (rc)
        goto no_buffer;
    rc = acceptor_create(&server->acceptor, env->listener, server->by_request);
    if (rc)
        goto no_acceptor;
    rc = -pthread_mutex_init(&server->list_lock, NULL);
    if (rc)
        goto no_lock;
    *out = server;
    return 0;
no_lock:
    acceptor_destroy(&server->acceptor);
no_acceptor:
    boundedbuf_destroy(&server->buffer);
no_buffer:
    free(server);
    return rc;
}

/* Ends and joins the acceptor and the first `workers` workers. */
static int halt(struct sbuf_server *server, size_t workers) {
    atomic_store(&server->stopping, 1);
    boundedbuf_close(&server->buffer);
    int rc = acceptor_wake(&server->acceptor);
    pthread_mutex_lock(&server->list_lock);
    for (struct conn *conn = server->conns.first; conn; conn = conn->next)
        shutdown(conn->fd, SHUT_RDWR);
    pthread_mutex_unlock(&server->list_lock);
    int joined = -pthread_join(server->accepting, NULL);
    for (size_t i = 0; i < workers; i++) {
        int one = -pthread_join(server->worker[i], NULL);
        joined = joined ? joined : one;
    }
    while (server->conns.first)
        end(server, server->conns.first, server->accept_block);
    return rc ? rc : joined;
}

static int start(void *self) {
    struct sbuf_server *server = self;
    int rc = -pthread_create(&server->accepting, NULL, accept_loop, server);
    if (rc)
        return rc;
    for (size_t i = 0; i < server->workers; i++) {
        rc = -pthread_create(&server->worker[i], NULL, work, server);
        if (rc) {
            halt(server, i);
            return rc;
        }
    }
    return 0;
}

static int stop(void *self) {
    struct sbuf_server *server = self;
    return halt(server, server->workers);
}

static void destroy(void *self) {
    struct sbuf_server *server = self;
    pthread_mutex_destroy(&server->list_lock);
    boundedbuf_destroy(&server->buffer);
    acceptor_destroy(&server->acceptor);
    free(server);
}

static const struct server_ops sbuf_ops = {
    .name = "sbuf",
    .summary = "an acceptor hands connections to a fixed pool of threads through a bounded buffer",
    .knobs = knobs,
    .serves_at_once = serves_at_once,
    .threads = threads,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(sbuf_ops);
