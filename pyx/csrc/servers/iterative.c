/* One process, one thread, one connection at a time, served with blocking calls until it ends. The others
 * wait in the accept queue, and when that is full, in their kernels, which try again ever later: that is what
 * it is there to show.
 *
 * The thread owns its connection. `current` names it to the stopper, under `lock`, which is held for a few
 * instructions and with nothing taken under it; it is forgotten there before it is freed.
 *
 * Stop: set `stopping`, wake a thread that waits for a connection, and shut down the one that it has, which
 * ends a blocking call. A connection that it takes after that is given up before it is read. Work that runs
 * is waited for. */
#include "../core/acceptor.h"
#include "../core/blocking.h"
#include "../core/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

static const struct knob knobs[] = {{0}};

struct iterative_server {
    struct server_env env;
    struct acceptor acceptor;
    pthread_t thread;
    _Atomic int stopping;
    pthread_mutex_t lock;
    struct conn *current; /* under lock */
};

static int one(const struct config *config) {
    (void)config;
    return 1;
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct iterative_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->env = *env;
    int rc = acceptor_create(&server->acceptor, env->listener, 0);
    if (rc) {
        free(server);
        return rc;
    }
    pthread_mutex_init(&server->lock, NULL);
    *out = server;
    return 0;
}

static void name_current(struct iterative_server *server, struct conn *conn) {
    pthread_mutex_lock(&server->lock);
    server->current = conn;
    pthread_mutex_unlock(&server->lock);
}

static void *loop(void *argument) {
    struct iterative_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_LOOP);
    int fd;
    while ((fd = acceptor_next(&server->acceptor, me)) >= 0) {
        struct conn *conn;
        if (conn_create(&server->env, fd, &conn)) {
            COUNT(me, errors, 1);
            continue;
        }
        COUNT(me, accepted, 1);
        name_current(server, conn);
        blocking_serve(conn, &server->stopping, me);
        name_current(server, NULL);
        conn_destroy(conn);
        COUNT(me, closed, 1);
    }
    counters_release(me);
    return NULL;
}

static int start(void *self) {
    struct iterative_server *server = self;
    return -pthread_create(&server->thread, NULL, loop, server);
}

static int stop(void *self) {
    struct iterative_server *server = self;
    atomic_store(&server->stopping, 1);
    int rc = acceptor_wake(&server->acceptor);
    if (rc)
        return rc;
    pthread_mutex_lock(&server->lock);
    if (server->current)
        shutdown(server->current->fd, SHUT_RDWR);
    pthread_mutex_unlock(&server->lock);
    return -pthread_join(server->thread, NULL);
}

static void destroy(void *self) {
    struct iterative_server *server = self;
    pthread_mutex_destroy(&server->lock);
    acceptor_destroy(&server->acceptor);
    free(server);
}

static const struct server_ops iterative_ops = {
    .name = "iterative",
    .summary = "one thread that serves one connection until it ends, then the next",
    .knobs = knobs,
    .serves_at_once = one,
    .threads = one,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(iterative_ops);
