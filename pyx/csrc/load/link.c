#define _GNU_SOURCE
#include "link.h"

#include "../core/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_LIMIT = 8 << 20, REPLY_LIMIT = 16 << 20 };

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

static int watch(struct link *link, int operation, int fd) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = link->owner};
    return epoll_ctl(link->epoll, operation, fd, &event) ? -errno : 0;
}

int link_open(struct link *link, const struct load_env *env, void *service_client, in_addr_t from) {
    int fd = sock_connect(&env->to, from);
    if (fd < 0)
        return fd;
    int rc = watch(link, EPOLL_CTL_ADD, fd);
    if (!rc) {
        memset(link->session, 0, env->service->client_session_size);
        rc = env->service->client_open(service_client, link->session);
    }
    if (rc) {
        close(fd);
        return rc;
    }
    link->fd = fd;
    return 0;
}

int link_again(struct link *link) {
    return watch(link, EPOLL_CTL_MOD, link->fd);
}

int link_opened(struct link *link, const struct load_env *env, void *service_client) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (!error && env->service->client_address) {
        struct sockaddr_in address = {0};
        length = sizeof(address);
        if (getsockname(link->fd, (struct sockaddr *)&address, &length))
            return -errno;
        env->service->client_address(service_client, link->session, &address);
    }
    return -error;
}

void link_close(struct link *link, const struct load_env *env, void *service_client) {
    if (link->fd >= 0) {
        close(link->fd);
        env->service->client_close(service_client, link->session);
    }
    link->fd = -1;
    buffer_free(&link->in);
    buffer_free(&link->out);
}

/* Sends what the socket takes. */
static int push(int fd, struct buffer *bytes) {
    while (buffer_length(bytes)) {
        ssize_t sent = send(fd, buffer_data(bytes), buffer_length(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return 0;
        if (sent < 0 && errno != EINTR)
            return -errno;
        if (sent > 0)
            buffer_consume(bytes, (size_t)sent);
    }
    return 0;
}

int link_send(struct link *link, struct buffer *bytes) {
    int rc = buffer_length(&link->out) ? 0 : push(link->fd, bytes);
    if (!rc && buffer_length(bytes))
        rc = buffer_put(&link->out, buffer_data(bytes), buffer_length(bytes));
    buffer_consume(bytes, buffer_length(bytes));
    return rc;
}

int link_flush(struct link *link) {
    int rc = push(link->fd, &link->out);
    if (!buffer_length(&link->out))
        buffer_free(&link->out);
    return rc;
}
