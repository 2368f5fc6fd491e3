#include "conn.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_SIZE = 16384,
    OUT_LIMIT = 16 << 20, /* a reply larger than this is refused */
    OUT_PAUSE = 1 << 20,  /* no further request is read while so much waits to be sent */
    KEPT_SMALL = 4096,    /* so few bytes left over are moved to a buffer of their own size */
};

static void init_buffers(struct buffer *in, struct buffer *out, const struct service_ops *service) {
    buffer_init(in, service->max_request + READ_SIZE);
    buffer_init(out, OUT_LIMIT);
}

int conn_create(const struct server_env *env, int fd, struct conn **out) {
    struct conn *conn = calloc(1, sizeof(*conn) + env->service->session_size);
    int rc = conn ? env->service->open(env->state, conn + 1) : -ENOMEM;
    if (rc) {
        free(conn);
        close(fd);
        return rc;
    }
    conn->fd = fd;
    conn->service = env->service;
    conn->state = env->state;
    conn->session = conn + 1;
    conn->once = config_is(env->config, "connection", "per_request");
    init_buffers(&conn->in, &conn->out, env->service);
    if (env->service->peer) {
        struct sockaddr_in address = {0};
        socklen_t length = sizeof(address);
        if (!getpeername(fd, (struct sockaddr *)&address, &length) && address.sin_family == AF_INET)
            env->service->peer(env->state, conn->session, &address);
    }
    *out = conn;
    return 0;
}

void conn_destroy(struct conn *conn) {
    conn->service->close(conn->state, conn->session);
    close(conn->fd);
    buffer_free(&conn->in);
    buffer_free(&conn->out);
    free(conn);
}

int conn_fill(struct conn *conn, int flags) {
    if (buffer_length(&conn->out) > OUT_PAUSE)
        return 0;
    size_t room = conn->in.limit - buffer_length(&conn->in);
    size_t want = room < READ_SIZE ? room : READ_SIZE;
    if (!want)
        return -EMSGSIZE;
    int rc = buffer_reserve(&conn->in, want);
    if (rc)
        return rc;
    ssize_t got;
    do
        got = recv(conn->fd, conn->in.bytes + conn->in.end, want, flags);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        conn->in.end += (size_t)got;
        return 1;
    }
    if (got == 0) /* the peer may have closed its own half only */
        return buffer_length(&conn->out) ? 0 : -ECONNRESET;
    if (errno == EAGAIN && flags & MSG_DONTWAIT)
        return 0;
    return -errno;
}

int conn_next(struct conn *conn) {
    if (conn->closing)
        return 0;
    for (;;) {
        size_t used = 0, length = buffer_length(&conn->in);
        if (!length)
            return 0;
        int rc = conn->service->parse(conn->state, conn->session, buffer_data(&conn->in), length, &used,
                                      &conn->out);
        buffer_consume(&conn->in, used);
        if (rc)
            return rc;
        if (!used)
            return 0;
    }
}

void conn_run(struct conn *conn, struct counter_block *me) {
    int64_t start = clock_now();
    conn->service->run(conn->state, conn->session, 0, UINT32_MAX, me);
    COUNT(me, busy_ns, clock_now() - start);
    COUNT(me, tasks, 1);
}

int conn_reply(struct conn *conn, struct counter_block *me) {
    int rc = conn->service->reply(conn->state, conn->session, &conn->out);
    if (rc < 0)
        return rc;
    if (rc == 1 || conn->once)
        conn->closing = 1;
    COUNT(me, requests, 1);
    return 0;
}

int conn_flush(struct conn *conn, int flags) {
    while (buffer_length(&conn->out)) {
        ssize_t sent =
            send(conn->fd, buffer_data(&conn->out), buffer_length(&conn->out), flags | MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN && flags & MSG_DONTWAIT)
                return 0;
            return -ECONNRESET;
        }
        buffer_consume(&conn->out, (size_t)sent);
    }
    return conn->closing ? -ECONNRESET : 1;
}

int conn_serve(struct conn *conn, int flags, struct counter_block *me) {
    for (;;) {
        int whole = 0;
        while (buffer_length(&conn->out) <= OUT_PAUSE && (whole = conn_next(conn)) > 0) {
            conn_run(conn, me);
            int rc = conn_reply(conn, me);
            if (rc)
                return rc;
        }
        if (whole < 0) {
            COUNT(me, errors, 1);
            conn->closing = 1;
        }
        int paused = buffer_length(&conn->out) > OUT_PAUSE, sent = conn_flush(conn, flags);
        /* Whole requests may be left in the input, and with all output gone nothing would announce them
         * again. */
        if (sent <= 0 || !paused)
            return sent;
    }
}

void conn_spare_init(struct conn_spare *spare, const struct server_env *env) {
    init_buffers(&spare->in, &spare->out, env->service);
}

void conn_spare_free(struct conn_spare *spare) {
    buffer_free(&spare->in);
    buffer_free(&spare->out);
}

static void exchange(struct buffer *a, struct buffer *b) {
    struct buffer kept = *a;
    *a = *b;
    *b = kept;
}

/* Gives the connection a buffer that is as large as the loop's, with the bytes that it has. */
static void lend(struct buffer *own, struct buffer *spare) {
    size_t length = buffer_length(own);
    if (own->capacity > KEPT_SMALL || (length && buffer_put(spare, buffer_data(own), length)))
        return;
    exchange(own, spare);
    buffer_free(spare);
}

/* Takes it back, unless it holds too much to be worth moving; a new one is then made for the next turn. */
static void reclaim(struct buffer *own, struct buffer *spare) {
    size_t length = buffer_length(own);
    if (!length && spare->bytes) {
        buffer_free(own);
    } else if (!spare->bytes && length <= KEPT_SMALL) {
        if (length && buffer_put(spare, buffer_data(own), length))
            return;
        exchange(own, spare);
        buffer_consume(spare, length);
    }
}

int conn_turn(struct conn *conn, struct conn_spare *spare, struct counter_block *me) {
    lend(&conn->in, &spare->in);
    lend(&conn->out, &spare->out);
    int rc = conn_fill(conn, MSG_DONTWAIT);
    if (rc >= 0)
        rc = conn_serve(conn, MSG_DONTWAIT, me);
    reclaim(&conn->in, &spare->in);
    reclaim(&conn->out, &spare->out);
    return rc;
}

void conn_list_add(struct conn_list *list, struct conn *conn) {
    conn->previous = NULL;
    conn->next = list->first;
    if (list->first)
        list->first->previous = conn;
    list->first = conn;
    list->count++;
}

void conn_list_remove(struct conn_list *list, struct conn *conn) {
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        list->first = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    list->count--;
}
