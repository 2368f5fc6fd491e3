#define _GNU_SOURCE
#include "link.h"

#include "../core/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 16384, REQUEST_LIMIT = 8 << 20, REPLY_LIMIT = 16 << 20 };

int link_init(struct link *link, const struct service_ops *service, int epoll, void *owner) {
    *link = (struct link){.fd = -1, .epoll = epoll, .owner = owner};
    link->session = calloc(1, service->client_session_size ? service->client_session_size : 1);
    buffer_init(&link->in, REPLY_LIMIT);
    buffer_init(&link->out, REQUEST_LIMIT);
    return link->session ? 0 : -ENOMEM;
}

void link_free(struct link *link) {
    free(link->session);
    buffer_free(&link->in);
    buffer_free(&link->out);
}

int link_open(struct link *link, const struct load_env *env, void *service_client) {
    int fd = sock_connect(&env->to);
    if (fd < 0)
        return fd;
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = link->owner};
    int rc = epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
    if (!rc) {
        memset(link->session, 0, env->service->client_session_size);
        rc = env->service->client_open(service_client, link->session);
    }
    if (rc) {
        close(fd);
        return rc;
    }
    link->fd = fd;
    link->writing = 1;
    return 0;
}

static int watch_writing(struct link *link, int writing) {
    if (link->writing == writing)
        return 0;
    link->writing = writing;
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = link->owner};
    return epoll_ctl(link->epoll, EPOLL_CTL_MOD, link->fd, &event) ? -errno : 0;
}

int link_opened(struct link *link, const struct load_env *env, void *service_client) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error)
        return -error;
    if (env->service->client_address) {
        struct sockaddr_in address = {0};
        length = sizeof(address);
        if (getsockname(link->fd, (struct sockaddr *)&address, &length))
            return -errno;
        env->service->client_address(service_client, link->session, &address);
    }
    return watch_writing(link, 0);
}

void link_close(struct link *link, const struct load_env *env, void *service_client) {
    if (link->fd >= 0) {
        close(link->fd);
        env->service->client_close(service_client, link->session);
    }
    link->fd = -1;
    link->writing = 0;
    buffer_consume(&link->in, buffer_length(&link->in));
    buffer_consume(&link->out, buffer_length(&link->out));
}

int link_send(struct link *link) {
    while (buffer_length(&link->out)) {
        ssize_t sent =
            send(link->fd, buffer_data(&link->out), buffer_length(&link->out), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return watch_writing(link, 1);
        if (sent < 0 && errno != EINTR)
            return -errno;
        if (sent > 0)
            buffer_consume(&link->out, (size_t)sent);
    }
    return watch_writing(link, 0);
}

long link_receive(struct link *link) {
    if (buffer_reserve(&link->in, READ_SIZE))
        return -EPROTO;
    ssize_t got = recv(link->fd, link->in.bytes + link->in.end, READ_SIZE, MSG_DONTWAIT);
    if (got < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    link->in.end += (size_t)got;
    return got;
}
