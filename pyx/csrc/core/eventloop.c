/* The loop thread owns every connection, the set of what is watched, and the buffers that connections borrow.
 * stop writes to an eventfd that the loop watches, then joins it; the connections are freed by the loop on
 * its way out. A descriptor that the readiness call cannot hold is closed at once and counted as an error.
 *
 * Accepting: at most BATCH connections in one go, so that a flood of them cannot keep the loop from those
 * that it has. When descriptors or memory run out, those that wait are left alone for 10 ms, as asking for
 * them again would fail at once; each failure counts as an error. */
#include "eventloop.h"

#include "clock.h"
#include "conn.h"
#include "sock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAUSE_MS = 10 };

struct eventloop {
    struct server_env env;
    const struct readiness *calls;
    void *set;
    int wake; /* an eventfd; its address is its tag, as env's is the listener's */
    int stopping;
    int64_t paused_until; /* 0: the listener is watched */
    struct conn_list conns;
    struct conn_spare spare;
    struct counter_block *me;
    pthread_t thread;
};

int eventloop_threads(const struct config *config) {
    (void)config;
    return 1;
}

int eventloop_create(const struct server_env *env, const struct readiness *calls, void **out) {
    struct eventloop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return -ENOMEM;
    loop->env = *env;
    loop->calls = calls;
    conn_spare_init(&loop->spare, env);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = loop->wake < 0 ? -errno : calls->create(&loop->set);
    if (!rc)
        rc = calls->add(loop->set, loop->wake, &loop->wake, POLLIN);
    if (!rc)
        rc = calls->add(loop->set, env->listener, &loop->env, POLLIN);
    if (rc) {
        eventloop_destroy(loop);
        return rc;
    }
    *out = loop;
    return 0;
}

void eventloop_destroy(void *self) {
    struct eventloop *loop = self;
    if (loop->set)
        loop->calls->destroy(loop->set);
    if (loop->wake >= 0)
        close(loop->wake);
    conn_spare_free(&loop->spare);
    free(loop);
}

static void end(struct eventloop *loop, struct conn *conn) {
    conn_list_remove(&loop->conns, conn);
    conn_destroy(conn);
    COUNT(loop->me, closed, 1);
}

/* A new connection. A request that has come already is answered first: a connection for one request has then
 * ended before it was ever watched. */
static void admit(struct eventloop *loop, int fd) {
    struct conn *conn;
    if (conn_create(&loop->env, fd, &conn)) {
        COUNT(loop->me, errors, 1);
        return;
    }
    conn_list_add(&loop->conns, conn);
    COUNT(loop->me, accepted, 1);
    int rc = conn_turn(conn, &loop->spare, loop->me);
    if (rc >= 0) {
        conn->waits = !rc;
        rc = loop->calls->add(loop->set, fd, conn, rc ? POLLIN : POLLOUT);
        if (rc)
            COUNT(loop->me, errors, 1);
    }
    if (rc < 0)
        end(loop, conn);
}

static int watch_listener(struct eventloop *loop, short events) {
    return loop->calls->change(loop->set, loop->env.listener, &loop->env, events);
}

/* One connection: whether another one waits is cheaper to learn from the next readiness call, together with
 * what else is ready, than from an accept that finds none, for which the kernel makes a socket and drops it.
 */
static void take(struct eventloop *loop) {
    int fd = sock_accept(loop->env.listener);
    if (fd >= 0) {
        admit(loop, fd);
    } else if (fd != -EAGAIN && fd != -ECONNABORTED && fd != -EINTR) {
        COUNT(loop->me, errors, 1);
        if (!watch_listener(loop, 0))
            loop->paused_until = clock_now() + PAUSE_MS * INT64_C(1000000);
    }
}

/* Reads and answers what a ready connection holds. While its output waits nothing is read: whatever the peer
 * goes on sending would wake the loop for nothing. */
static void serve(struct eventloop *loop, struct conn *conn) {
    int waited = conn->waits, rc = conn_turn(conn, &loop->spare, loop->me);
    if (rc >= 0 && waited != !rc) {
        conn->waits = !rc;
        rc = loop->calls->change(loop->set, conn->fd, conn, rc ? POLLIN : POLLOUT);
    }
    if (rc < 0) {
        loop->calls->remove(loop->set, conn->fd);
        end(loop, conn);
    }
}

void eventloop_ready(struct eventloop *loop, void *tag) {
    if (tag == &loop->wake)
        loop->stopping = 1;
    else if (tag == &loop->env)
        take(loop);
    else
        serve(loop, tag);
}

static void *run(void *argument) {
    struct eventloop *loop = argument;
    loop->me = counters_claim(loop->env.counters, ROLE_LOOP);
    while (!loop->stopping) {
        int64_t start = clock_now();
        int count = loop->calls->wait(loop->set, loop->paused_until ? PAUSE_MS : -1);
        int64_t now = counters_waited(loop->me, start);
        if (loop->paused_until && now >= loop->paused_until && !watch_listener(loop, POLLIN))
            loop->paused_until = 0;
        if (count > 0)
            loop->calls->visit(loop->set, count, loop);
    }
    while (loop->conns.first)
        end(loop, loop->conns.first);
    counters_release(loop->me);
    return NULL;
}

int eventloop_start(void *self) {
    struct eventloop *loop = self;
    return -pthread_create(&loop->thread, NULL, run, loop);
}

int eventloop_stop(void *self) {
    struct eventloop *loop = self;
    if (eventfd_write(loop->wake, 1))
        return -errno;
    return -pthread_join(loop->thread, NULL);
}
