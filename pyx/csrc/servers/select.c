/* One event loop by select: accepts, reads, works and writes in one thread.
 *
 * The loop thread owns every connection. stop writes to an eventfd that the loop watches, then joins it; the
 * connections are freed by the loop on its way out. A descriptor that select cannot hold is never watched:
 * such a connection is closed at once and counted as an error. */
#include "../core/clock.h"
#include "../core/conn.h"
#include "../core/registry.h"
#include "../core/sock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct knob knobs[] = {{0}};

enum { ACCEPT_PAUSE_US = 10000 };

struct select_server {
    struct server_env env;
    int wake;
    pthread_t thread;
    struct conn_list conns;
    fd_set reading, writing;
    int highest;
    int paused; /* out of descriptors: the listener is left alone for a moment */
};

static int threads(const struct config *config) {
    (void)config;
    return 1;
}

static int create(const struct server_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct select_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->env = *env;
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake < 0) {
        free(server);
        return -errno;
    }
    *out = server;
    return 0;
}

static void watch(struct select_server *server, int fd) {
    FD_SET(fd, &server->reading);
    if (fd > server->highest)
        server->highest = fd;
}

static void end(struct select_server *server, struct conn *conn, struct counter_block *me) {
    FD_CLR(conn->fd, &server->reading);
    FD_CLR(conn->fd, &server->writing);
    while (!FD_ISSET(server->highest, &server->reading) && !FD_ISSET(server->highest, &server->writing))
        server->highest--;
    conn_list_remove(&server->conns, conn);
    conn_destroy(conn);
    COUNT(me, closed, 1);
}

static void take(struct select_server *server, struct counter_block *me) {
    for (;;) {
        int fd = sock_accept(server->env.listener);
        if (fd == -EAGAIN)
            return;
        if (fd < 0) {
            COUNT(me, errors, 1);
            server->paused = fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM;
            return;
        }
        struct conn *conn;
        if (fd >= FD_SETSIZE) {
            close(fd);
            COUNT(me, errors, 1);
        } else if (conn_create(&server->env, fd, &conn)) {
            COUNT(me, errors, 1);
        } else {
            conn_list_add(&server->conns, conn);
            watch(server, fd);
            COUNT(me, accepted, 1);
        }
    }
}

/* Reads and answers what one ready connection holds. While its output waits nothing is read: whatever the
 * peer goes on sending would wake the loop for nothing. */
static void serve(struct select_server *server, struct conn *conn, struct counter_block *me) {
    int rc = conn_fill(conn, MSG_DONTWAIT);
    if (rc >= 0)
        rc = conn_serve(conn, MSG_DONTWAIT, me);
    if (rc < 0) {
        end(server, conn, me);
        return;
    }
    FD_CLR(conn->fd, rc ? &server->writing : &server->reading);
    FD_SET(conn->fd, rc ? &server->reading : &server->writing);
}

static void *loop(void *argument) {
    struct select_server *server = argument;
    struct counter_block *me = counters_claim(server->env.counters, ROLE_LOOP);
    FD_ZERO(&server->reading);
    FD_ZERO(&server->writing);
    watch(server, server->wake);
    watch(server, server->env.listener);
    for (;;) {
        fd_set ready = server->reading, writable = server->writing;
        struct timeval pause = {0, ACCEPT_PAUSE_US};
        if (server->paused)
            FD_CLR(server->env.listener, &ready);
        COUNT(me, polls, 1);
        int count = select(server->highest + 1, &ready, &writable, NULL, server->paused ? &pause : NULL);
        counters_publish(me, clock_now());
        server->paused = 0;
        if (count < 0)
            continue;
        if (FD_ISSET(server->wake, &ready))
            break;
        if (FD_ISSET(server->env.listener, &ready))
            take(server, me);
        for (struct conn *conn = server->conns.first, *next; conn; conn = next) {
            next = conn->next;
            if (FD_ISSET(conn->fd, &ready) || FD_ISSET(conn->fd, &writable))
                serve(server, conn, me);
        }
    }
    while (server->conns.first)
        end(server, server->conns.first, me);
    counters_release(me);
    return NULL;
}

static int start(void *self) {
    struct select_server *server = self;
    return -pthread_create(&server->thread, NULL, loop, server);
}

static int stop(void *self) {
    struct select_server *server = self;
    if (eventfd_write(server->wake, 1))
        return -errno;
    return -pthread_join(server->thread, NULL);
}

static void destroy(void *self) {
    struct select_server *server = self;
    close(server->wake);
    free(server);
}

static const struct server_ops select_ops = {
    .name = "select",
    .summary = "one event loop that waits by select",
    .knobs = knobs,
    .max_connections = FD_SETSIZE - 16,
    .threads = threads,
    .create = create,
    .start = start,
    .stop = stop,
    .destroy = destroy,
};
REGISTER_SERVER(select_ops);
