/* A load's end of one connection: the socket in the load's epoll set, its bytes, and its session of the
 * service's client side. One thread. Functions give 0 or a negated errno. */
#ifndef KNEEPOINT_LINK_H
#define KNEEPOINT_LINK_H

#include "../core/buffer.h"
#include "../core/load.h"

struct link {
    int fd;      /* -1 while there is no connection */
    int writing; /* epoll watches for room to write, too */
    int epoll;
    void *owner; /* what epoll reports */
    struct buffer in, out;
    void *session;
};

int link_init(struct link *link, const struct service_ops *service, int epoll, void *owner);
void link_free(struct link *link);

/* Begins to connect, with a fresh session; epoll reports room to write when it is done. */
int link_open(struct link *link, const struct load_env *env, void *service_client);

/* The outcome of connecting; the session then knows its own address, and epoll watches for input. */
int link_opened(struct link *link, const struct load_env *env, void *service_client);

/* Closes the connection, if there is one, and forgets all bytes. */
void link_close(struct link *link, const struct load_env *env, void *service_client);

/* Sends what is in out; what the socket does not take is left, and epoll watches for room. */
int link_send(struct link *link);

/* Reads what is there into in: the number of bytes, 0 at the end of the stream, -EAGAIN when there is
 * nothing, -EPROTO when the peer sends without end. */
long link_receive(struct link *link);

#endif
