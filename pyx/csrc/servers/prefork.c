/* A fixed set of processes that share the listening socket, each with one connection at a time until it ends.
 *
 * Each process waits in accept itself: there the kernel keeps them in one line and wakes the first, for one
 * connection. By select or epoll on the shared socket all that are idle would wake for each connection and
 * all but one in vain; by a socket each (SO_REUSEPORT) a connection would wait for a process that is held by
 * another one while others are idle. So the socket, which the server is given non-blocking, is made to block.
 *
 * A thread supervises: it forks the processes, sleeps until one ends, and replaces it, at most once in 100 ms
 * for each of them, as what kills one may kill the next. Forking is safe here though the process has a second
 * thread: that one sleeps (in start, until the first processes are there) and holds nothing. What a process
 * does after the fork is core/children.h's; stop is too. */
#define _GNU_SOURCE
#include "../core/children.h"
#include "../core/clock.h"
#include "../core/registry.h"
#include "../core/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"workers", KNOB_INT, "4", "1:1024", "processes", "processes that serve"},
    {0},
};

enum { PAUSE_NS = 10000000, REPLACE_MS = 100 };

struct prefork_server {
    struct children children;
    int wake;
    sem_t started;
    int failure; /* of the first processes; written before `started` is posted */
    pthread_t thread;
    int64_t forked;      /* when processes were last forked */
    struct pollfd *ends; /* of each place's process, then of `wake` */
};

static int workers_of(const struct config *config) {
    return (int)config_int(config, "workers");
}

static void work(struct children *children, struct child *self, int listener) {
    while (!children_rest(self)) {
        int64_t start = clock_now();
        int fd = sock_accept(listener);
        if (children_work(self))
            return;
        children_waited(self, start);
        if (fd >= 0) {
            children_serve(children, self, fd);
        } else if (fd != -EINTR && fd != -ECONNABORTED) {
            /* Out of descriptors or memory: asking again would fail at once. */
            COUNT(self->block, errors, 1);
            nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        }
    }
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct prefork_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    size_t workers = (size_t)workers_of(env->config);
    server->ends = calloc(workers + 1, sizeof(*server->ends));
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = !server->ends ? -ENOMEM : server->wake < 0 ? -errno : 0;
    int flags = rc ? 0 : fcntl(env->listener, F_GETFL);
    if (!rc && (flags < 0 || fcntl(env->listener, F_SETFL, flags & ~O_NONBLOCK)))
        rc = -errno;
    if (!rc)
        rc = children_create(&server->children, env, ROLE_WORKER, workers, work);
    if (rc) {
        if (server->wake >= 0)
            close(server->wake);
        free(server->ends);
        free(server);
        return rc;
    }
    sem_init(&server->started, 0, 0);
    *out = server;
    return 0;
}

/* Forks for every free place. */
static int fill(struct prefork_server *server) {
    int rc = 0;
    while (!rc && server->children.free) {
        struct child *child;
        int fd = fcntl(server->children.env.listener, F_DUPFD_CLOEXEC, 0);
        rc = fd < 0 ? -errno : children_fork(&server->children, fd, &child);
    }
    server->forked = clock_now();
    return rc;
}

/* Sleeps until a process ends or free places are due. Nonzero: the server is to stop. */
static int watch(struct prefork_server *server) {
    struct children *children = &server->children;
    struct pollfd *ends = server->ends, *wake = &ends[children->capacity];
    for (size_t i = 0; i < children->capacity; i++)
        ends[i] = (struct pollfd){children->child[i].pid ? children->child[i].pidfd : -1, POLLIN, 0};
    *wake = (struct pollfd){server->wake, POLLIN, 0};
    if (poll(ends, children->capacity + 1, children->free ? REPLACE_MS : -1) < 0)
        return 0;
    for (size_t i = 0; i < children->capacity; i++)
        if (ends[i].revents)
            children_reap(children, &children->child[i]);
    return wake->revents;
}

static void *supervise(void *argument) {
    struct prefork_server *server = argument;
    server->failure = fill(server);
    sem_post(&server->started);
    while (!server->failure && !watch(server))
        if (server->children.free && clock_now() - server->forked >= REPLACE_MS * INT64_C(1000000))
            fill(server);
    children_stop(&server->children);
    return NULL;
}

static int start(void *self) {
    struct prefork_server *server = self;
    int rc = -pthread_create(&server->thread, NULL, supervise, server);
    if (rc)
        return rc;
    while (sem_wait(&server->started))
        ;
    if (server->failure)
        pthread_join(server->thread, NULL);
    return server->failure;
}

static int stop(void *self) {
    struct prefork_server *server = self;
    if (eventfd_write(server->wake, 1))
        return -errno;
    return -pthread_join(server->thread, NULL);
}

static void destroy(void *self) {
    struct prefork_server *server = self;
    children_destroy(&server->children);
    sem_destroy(&server->started);
    close(server->wake);
    free(server->ends);
    free(server);
}

static const struct server_ops prefork_ops = {
    .name = "prefork",
    .summary = "a fixed set of processes that share the listening socket, one connection at a time each",
    .knobs = knobs,
    .serves_at_once = workers_of,
    .processes = 1,
    .threads = workers_of,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(prefork_ops);
