/* A process for each accepted connection.
 *
 * The acceptor's thread accepts, forks, and reaps: it watches the listener and the end of each process
 * (a pidfd) in one epoll. A process has its connection, and ends with it. With `children` of them alive the
 * acceptor leaves further connections in the accept queue until one has ended.
 *
 * Forking is safe here though the process has a second thread: that one sleeps until a signal comes and holds
 * nothing. What a process does after the fork is core/children.h's; stop is too. */
#include "../core/acceptor.h"
#include "../core/children.h"
#include "../core/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static const struct knob knobs[] = {
    {"children", KNOB_INT, "4000", "1:4000", "processes",
     "most at once; connections beyond wait until one ends"},
    {0},
};

enum { BATCH = 64 };

struct fork_server {
    struct acceptor acceptor;
    struct children children;
    pthread_t thread;
};

static int children_of(const struct config *config) {
    return (int)config_int(config, "children");
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct fork_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    int rc = acceptor_create(&server->acceptor, env->listener, 1);
    if (rc)
        goto no_acceptor;
    rc = children_create(&server->children, env, ROLE_CONNECTION, (size_t)children_of(env->config),
                         children_serve);
    if (rc)
        goto no_children;
    *out = server;
    return 0;
no_children:
    acceptor_destroy(&server->acceptor);
no_acceptor:
    free(server);
    return rc;
}

/* Forks for the connections that wait, at most BATCH so that a flood of them cannot keep the acceptor from
 * those that end. A connection that cannot be forked for is lost, and the next ones wait for a moment. */
static void fork_waiting(struct fork_server *server, struct counter_block *me) {
    for (int i = 0; i < BATCH && server->children.free; i++) {
        int fd = acceptor_take(&server->acceptor, me);
        if (fd < 0)
            return;
        struct child *child;
        int rc = children_fork(&server->children, fd, &child);
        if (!rc && (rc = acceptor_add(&server->acceptor, child->pidfd, EPOLLIN, child)))
            children_dismiss(&server->children, child);
        if (rc) {
            COUNT(me, errors, 1);
            acceptor_pause(&server->acceptor);
            return;
        }
    }
    if (!server->children.free)
        acceptor_pause(&server->acceptor);
}

/* If it was the last one that there was room for, connections may be waiting for its place. */
static void reap(struct fork_server *server, struct child *child) {
    int full = !server->children.free;
    children_reap(&server->children, child);
    if (full)
        acceptor_resume(&server->acceptor);
}

static void *accept_loop(void *argument) {
    struct fork_server *server = argument;
    struct counter_block *me = counters_claim(server->children.env.counters, ROLE_ACCEPTOR);
    struct epoll_event events[BATCH];
    int count;
    while ((count = acceptor_wait(&server->acceptor, events, BATCH, me)) >= 0) {
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                reap(server, events[i].data.ptr);
            else
                fork_waiting(server, me);
        }
    }
    children_stop(&server->children);
    counters_release(me);
    return NULL;
}

static int start(void *self) {
    struct fork_server *server = self;
    return -pthread_create(&server->thread, NULL, accept_loop, server);
}

static int stop(void *self) {
    struct fork_server *server = self;
    int rc = acceptor_wake(&server->acceptor);
    return rc ? rc : -pthread_join(server->thread, NULL);
}

static void destroy(void *self) {
    struct fork_server *server = self;
    children_destroy(&server->children);
    acceptor_destroy(&server->acceptor);
    free(server);
}

static const struct server_ops fork_ops = {
    .name = "fork",
    .summary = "a process for each connection",
    .knobs = knobs,
    .serves_at_once = children_of,
    .processes = 1,
    .threads = children_of,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(fork_ops);
