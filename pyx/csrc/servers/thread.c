/* A thread for each connection, which serves it with blocking calls until it ends.
 *
 * The acceptor makes the threads, at most `threads` at once: with as many it leaves further connections in
 * the accept queue until one ends. A connection is its thread's from then on; if no thread can be made, it is
 * closed and counted as an error, and the acceptor pauses as if descriptors had run out.
 *
 * The list of connections and how many threads live are under `lock`, a leaf: nothing is taken under it. A
 * connection leaves the list before it is freed. `fewer` tells the acceptor, or the stopper after it, that a
 * thread has gone: never both wait.
 *
 * Threads are detached, so that nothing of them is left when they end, however many came. The last thing that
 * one does with the server is to count itself out of `live` under `lock`, which the stopper must take.
 *
 * Stop: set `stopping`, wake the acceptor and join it; from then on the list only shrinks. Every listed
 * socket is shut down, which ends blocking calls, and the threads that live are waited for. Work that runs is
 * waited for. */
#include "../core/acceptor.h"
#include "../core/blocking.h"
#include "../core/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    MOST = COUNTER_BLOCKS - 1, /* the acceptor has a block too; who has none of its own would lose counts */
    STACK_SIZE = 256 << 10,
};

static const struct knob knobs[] = {
    {"threads", KNOB_INT, "4095", "1:4095", "threads",
     "most at once; further connections wait in the accept queue until one ends"},
    {0},
};

_Static_assert(MOST == 4095, "the knob's bound is the number of counter blocks but one");

struct thread_server {
    struct server_env env;
    size_t most; /* threads of connections at once */
    struct acceptor acceptor;
    pthread_t accepting;
    pthread_attr_t attributes;
    _Atomic int stopping;
    pthread_mutex_t lock;
    pthread_cond_t fewer;
    struct conn_list conns; /* under lock, as the rest */
    size_t live;            /* threads of connections */
};

static int threads(const struct config *config) {
    return (int)config_int(config, "threads");
}

static void enlist(struct thread_server *server, struct conn *conn) {
    pthread_mutex_lock(&server->lock);
    conn_list_add(&server->conns, conn);
    server->live++;
    pthread_mutex_unlock(&server->lock);
}

/* Takes the connection off the list and frees it. */
static void end(struct thread_server *server, struct conn *conn, struct counter_block *me) {
    pthread_mutex_lock(&server->lock);
    conn_list_remove(&server->conns, conn);
    pthread_mutex_unlock(&server->lock);
    conn_destroy(conn);
    COUNT(me, closed, 1);
}

static void leave(struct thread_server *server) {
    pthread_mutex_lock(&server->lock);
    server->live--;
    pthread_cond_signal(&server->fewer);
    pthread_mutex_unlock(&server->lock);
}

static void *attend(void *argument) {
    struct conn *conn = argument;
    struct thread_server *server = conn->owner;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_CONNECTION);
    blocking_serve(conn, &server->stopping, me);
    end(server, conn, me);
    counters_release(me);
    leave(server);
    return NULL;
}

static void admit(struct thread_server *server, int fd, struct counter_block *me) {
    struct conn *conn;
    if (conn_create(&server->env, fd, &conn)) {
        COUNT(me, errors, 1);
        return;
    }
    COUNT(me, accepted, 1);
    conn->owner = server;
    enlist(server, conn);
    pthread_t thread;
    if (!pthread_create(&thread, &server->attributes, attend, conn))
        return;
    COUNT(me, errors, 1);
    end(server, conn, me);
    leave(server);
    acceptor_pause(&server->acceptor);
}

/* Sleeps while as many threads live as may. */
static void await_place(struct thread_server *server, struct counter_block *me) {
    pthread_mutex_lock(&server->lock);
    if (server->live >= server->most)
        COUNT(me, sleeps, 1);
    while (server->live >= server->most && !atomic_load(&server->stopping))
        pthread_cond_wait(&server->fewer, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

static void *accept_loop(void *argument) {
    struct thread_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_ACCEPTOR);
    int fd;
    while ((fd = acceptor_next(&server->acceptor, me)) >= 0) {
        admit(server, fd, me);
        await_place(server, me);
    }
    counters_release(me);
    return NULL;
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct thread_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->env = *env;
    server->most = (size_t)threads(env->config);
    int rc = acceptor_create(&server->acceptor, env->listener, 0);
    if (rc)
        goto no_acceptor;
    rc = -pthread_attr_init(&server->attributes);
    if (rc)
        goto no_attributes;
    pthread_attr_setstacksize(&server->attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&server->attributes, PTHREAD_CREATE_DETACHED);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->fewer, NULL);
    *out = server;
    return 0;
no_attributes:
    acceptor_destroy(&server->acceptor);
no_acceptor:
    free(server);
    return rc;
}

static int start(void *self) {
    struct thread_server *server = self;
    return -pthread_create(&server->accepting, NULL, accept_loop, server);
}

static int stop(void *self) {
    struct thread_server *server = self;
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->stopping, 1);
    pthread_cond_signal(&server->fewer);
    pthread_mutex_unlock(&server->lock);
    int rc = acceptor_wake(&server->acceptor);
    if (rc)
        return rc;
    rc = -pthread_join(server->accepting, NULL);
    pthread_mutex_lock(&server->lock);
    for (struct conn *conn = server->conns.first; conn; conn = conn->next)
        shutdown(conn->fd, SHUT_RDWR);
    while (server->live)
        pthread_cond_wait(&server->fewer, &server->lock);
    pthread_mutex_unlock(&server->lock);
    return rc;
}

static void destroy(void *self) {
    struct thread_server *server = self;
    pthread_cond_destroy(&server->fewer);
    pthread_mutex_destroy(&server->lock);
    pthread_attr_destroy(&server->attributes);
    acceptor_destroy(&server->acceptor);
    free(server);
}

static const struct server_ops thread_ops = {
    .name = "thread",
    .summary = "a thread for each connection",
    .knobs = knobs,
    .serves_at_once = threads,
    .threads = threads,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(thread_ops);
