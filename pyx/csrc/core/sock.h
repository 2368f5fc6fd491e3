/* TCP sockets as kneepoint wants them: close-on-exec, TCP_NODELAY, IPv4. Every function gives a descriptor
 * (or 0) or a negated errno. */
#ifndef KNEEPOINT_SOCK_H
#define KNEEPOINT_SOCK_H

#include <netinet/in.h>
#include <stdint.h>

/* A non-blocking listening socket. host is a dotted address; port 0 lets the system choose. */
int sock_listen(const char *host, uint16_t port, int backlog);

/* Accepts one connection as a blocking socket (each call that must not block says MSG_DONTWAIT): -EAGAIN when
 * there is none. */
int sock_accept(int listener);

/* Like sock_accept, but sleeps until a connection comes, `wake` becomes readable (-ECANCELED) or an error
 * occurs. */
int sock_accept_wait(int listener, int wake);

/* Starts connecting a non-blocking socket, from a port that the system chooses of the local address `from`
 * (network order), or of any when it is 0. */
int sock_connect(const struct sockaddr_in *to, in_addr_t from);

/* Connects a blocking socket, sleeping until it is done; connecting, and each later read and write, gives up
 * after `timeout_ns` (-ETIMEDOUT here, EAGAIN in a read or write). */
int sock_connect_wait(const struct sockaddr_in *to, int64_t timeout_ns);

int sock_address(const char *host, uint16_t port, struct sockaddr_in *out);
uint16_t sock_port(int fd);

#endif
