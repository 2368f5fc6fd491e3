#define _GNU_SOURCE
#include "sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int set(int fd, int level, int option) {
    int on = 1;
    return setsockopt(fd, level, option, &on, sizeof(on)) ? -errno : 0;
}

int sock_address(const char *host, uint16_t port, struct sockaddr_in *out) {
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    return inet_pton(AF_INET, host, &out->sin_addr) == 1 ? 0 : -EINVAL;
}

int sock_listen(const char *host, uint16_t port, int backlog) {
    struct sockaddr_in address;
    int rc = sock_address(host, port, &address);
    if (rc)
        return rc;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    rc = set(fd, SOL_SOCKET, SO_REUSEADDR);
    if (!rc)
        rc = set(fd, IPPROTO_TCP, TCP_NODELAY); /* accepted sockets inherit it */
    if (!rc && (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, backlog)))
        rc = -errno;
    if (rc) {
        close(fd);
        return rc;
    }
    return fd;
}

int sock_accept(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int sock_accept_wait(int listener, int wake) {
    for (;;) {
        struct pollfd ready[2] = {{listener, POLLIN, 0}, {wake, POLLIN, 0}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (ready[1].revents)
            return -ECANCELED;
        if (!ready[0].revents)
            continue;
        int fd = sock_accept(listener);
        if (fd != -EAGAIN && fd != -ECONNABORTED && fd != -EINTR)
            return fd;
    }
}

/* The port is chosen by connect, so that one port can be used to several destinations. */
static int set_source(int fd, in_addr_t from) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = from};
    int rc = set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
    if (!rc && bind(fd, (struct sockaddr *)&address, sizeof(address)))
        rc = -errno;
    return rc;
}

int sock_connect(const struct sockaddr_in *to, in_addr_t from) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    set(fd, IPPROTO_TCP, TCP_NODELAY);
    int rc = from ? set_source(fd, from) : 0;
    if (!rc && connect(fd, (const struct sockaddr *)to, sizeof(*to)) && errno != EINPROGRESS)
        rc = -errno;
    if (rc) {
        close(fd);
        return rc;
    }
    return fd;
}

int sock_connect_wait(const struct sockaddr_in *to, int64_t timeout_ns) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct timeval limit = {timeout_ns / 1000000000, timeout_ns % 1000000000 / 1000};
    int rc = set(fd, IPPROTO_TCP, TCP_NODELAY);
    if (!rc && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
                setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
                connect(fd, (const struct sockaddr *)to, sizeof(*to))))
        rc = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
    if (rc) {
        close(fd);
        return rc;
    }
    return fd;
}

uint16_t sock_port(int fd) {
    struct sockaddr_in address;
    socklen_t length = sizeof(address);
    return getsockname(fd, (struct sockaddr *)&address, &length) ? 0 : ntohs(address.sin_port);
}
