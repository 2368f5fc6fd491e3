/* One connection of a server: its socket, its bytes in and out, its session of the service.
 *
 * A blocking server and an event loop feed a connection in the same way:
 *
 *     conn_fill → while conn_next says 1: { conn_run, or split and run elsewhere; conn_reply } → conn_flush
 *
 * conn_serve does all of it for a server that runs each request where it read it. One thread at a time owns a
 * connection. Functions give 0 or 1 as said, or a negated errno; after an error the owner calls conn_destroy.
 */
#ifndef KNEEPOINT_CONN_H
#define KNEEPOINT_CONN_H

#include "buffer.h"
#include "server.h"

struct conn {
    int fd;
    unsigned char closing; /* close as soon as out is empty */
    unsigned char once;    /* connection=per_request: close after the first reply */
    unsigned char waits;   /* for the server's own use: output waits for the socket */
    struct buffer in, out;
    const struct service_ops *service;
    void *state;
    void *session;                /* of the same allocation */
    void *owner;                  /* for the server's own use */
    struct conn *previous, *next; /* in a conn_list */
};

/* Takes over fd (closed on failure too). */
int conn_create(const struct server_env *env, int fd, struct conn **out);
void conn_destroy(struct conn *conn);

/* Reads what is there. flags: 0 to block until something is, MSG_DONTWAIT not to. 1: bytes came. 0: nothing
 * there, or no more will come but output is still to be sent (only with MSG_DONTWAIT). -ECONNRESET: the peer
 * closed, in order or not. -EAGAIN: a receive time-out passed. Bytes are left in the socket while a peer that
 * does not read its replies has filled out. */
int conn_fill(struct conn *conn, int flags);

/* 1: a whole request is in the session. 0: more bytes are needed. Negative: close (after a flush). */
int conn_next(struct conn *conn);

/* Runs all tasks of the request in this thread, with busy time counted. */
void conn_run(struct conn *conn, struct counter_block *me);

/* Writes the reply into out and counts the request. */
int conn_reply(struct conn *conn, struct counter_block *me);

/* Sends what is in out. 1: all sent. 0: the socket is full (only with MSG_DONTWAIT). -ECONNRESET: the
 * connection ends, because the peer is gone or because `closing` was set and all is sent. */
int conn_flush(struct conn *conn, int flags);

/* Serves every whole request that the input holds and flushes. 1: ready for more. 0: output waits for the
 * socket (only with MSG_DONTWAIT). Negative: the connection has ended. */
int conn_serve(struct conn *conn, int flags, struct counter_block *me);

/* Buffers that a thread lends to the connection at which it works, so that idle ones hold none. */
struct conn_spare {
    struct buffer in, out;
};
void conn_spare_init(struct conn_spare *spare, const struct server_env *env);
void conn_spare_free(struct conn_spare *spare);

/* One turn of an event loop, without waiting: conn_fill, then conn_serve, with the loop's buffers where the
 * connection has none of its own; afterwards it has what it needs for bytes that are left, and no more. Gives
 * what conn_serve does. */
int conn_turn(struct conn *conn, struct conn_spare *spare, struct counter_block *me);

/* A set of connections, so that a stopping server can find them. Not locked. */
struct conn_list {
    struct conn *first;
    size_t count;
};
void conn_list_add(struct conn_list *list, struct conn *conn);
void conn_list_remove(struct conn_list *list, struct conn *conn);

#endif
