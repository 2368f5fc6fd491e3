/* A load's end of one connection: the socket in the load's epoll set, and its session of the service's client
 * side. One thread. Functions give 0 or a negated errno.
 *
 * epoll watches each socket edge-triggered for everything from the start, so that a request costs no call to
 * epoll_ctl: who gets an event must read until less comes than was asked for, or until the end of the stream
 * that the event announced, or call link_again. `in` and `out` hold bytes only while a reply is incomplete or
 * the socket is full, so that thousands of connections cost little memory. */
#ifndef KNEEPOINT_LINK_H
#define KNEEPOINT_LINK_H

#include "../core/buffer.h"
#include "../core/load.h"

struct link {
    int fd; /* -1 while there is no connection */
    int epoll;
    void *owner; /* what epoll reports */
    struct buffer in, out;
    void *session;
};

int link_init(struct link *link, const struct service_ops *service, int epoll, void *owner);
void link_free(struct link *link);

/* Begins to connect, with a fresh session, from a local address or 0; epoll reports room to write when it is
 * done. */
int link_open(struct link *link, const struct load_env *env, void *service_client, in_addr_t from);

/* Has epoll report once more what the connection is ready for. */
int link_again(struct link *link);

/* The outcome of connecting; the session then knows its own address. */
int link_opened(struct link *link, const struct load_env *env, void *service_client);

/* Closes the connection, if there is one, and forgets all bytes. */
void link_close(struct link *link, const struct load_env *env, void *service_client);

/* Sends all bytes, and leaves the buffer empty; what the socket does not take is kept in out. */
int link_send(struct link *link, struct buffer *bytes);

/* Sends what was kept. */
int link_flush(struct link *link);

#endif
