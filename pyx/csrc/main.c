/* kneepoint-server SERVICE SERVER [--host H] [--port P] [--counters FD] [--alive FD] [name=value …]
 *
 * Runs one server until SIGINT or SIGTERM, or until the pipe behind --alive closes: whoever started the
 * server holds the other end, so a server never outlives it, however it dies. Prints "listening on HOST:PORT"
 * first. Exit status: 0 stopped in order, 1 the system refused something, 2 wrong arguments. */
#define _GNU_SOURCE
#include "core/arguments.h"
#include "core/host.h"
#include "core/placement.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct arguments {
    const char *service, *server, *host;
    int64_t port, counters, alive;
};

static int fail(int status, const char *message) {
    fprintf(stderr, "kneepoint-server: %s\n", message);
    return status;
}

/* One write, so that lines of several threads or processes do not mix. */
static void complain(const char *line) {
    dprintf(STDERR_FILENO, "kneepoint-server: %s\n", line);
}

static int read_arguments(int count, char **words, struct arguments *arguments, struct config *config) {
    *arguments = (struct arguments){.host = "127.0.0.1", .counters = -1, .alive = -1};
    const char *port = "0", *counters = NULL, *alive = NULL;
    const char **const names[] = {&arguments->service, &arguments->server, NULL};
    const struct argument_option options[] = {
        {"--host", &arguments->host}, {"--port", &port}, {"--counters", &counters}, {"--alive", &alive}, {0}};
    int rc = arguments_read(count, words, names, options, config);
    if (!rc)
        rc = arguments_number(port, 65535, &arguments->port);
    if (!rc && counters)
        rc = arguments_number(counters, INT_MAX, &arguments->counters);
    if (!rc && alive)
        rc = arguments_number(alive, INT_MAX, &arguments->alive);
    return rc;
}

static struct counters *map_counters(int fd) {
    int flags = fd < 0 ? MAP_ANONYMOUS : 0;
    void *page = mmap(NULL, counters_size(), PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* Sleeps until a stop signal arrives or the starter is gone. */
static void await_stop(int signals, int alive) {
    struct pollfd ready[2] = {{signals, POLLIN, 0}, {alive, 0, 0}};
    while (poll(ready, alive < 0 ? 1 : 2, -1) < 0 && errno == EINTR)
        ;
}

int main(int count, char **words) {
    struct arguments arguments;
    struct config *config;
    char message[512];
    if (config_create(&config))
        return fail(1, "out of memory");
    if (read_arguments(count, words, &arguments, config)) {
        config_destroy(config);
        return fail(
            2, "usage: kneepoint-server SERVICE SERVER [--host H] [--port P] [--counters FD] [--alive FD] "
               "[name=value ...]");
    }
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, as it may be by inheritance, the kernel would forget who ended */
    int signals = signalfd(-1, &stops, SFD_CLOEXEC);
    struct counters *counters = map_counters((int)arguments.counters);
    if (signals < 0 || !counters) {
        config_destroy(config);
        return fail(1, strerror(errno));
    }
    /* A file over its limit, and a reader of our words who is gone, are errors of a write and end no server.
     */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL);
    const char *cpus = config_text(config, "server_cpus");
    struct host *host = NULL;
    int rc = placement_bind(cpus ? cpus : "");
    if (rc)
        snprintf(message, sizeof(message), "server_cpus=%.64s: not a list of this machine's CPUs", cpus);
    else
        rc = host_start(arguments.service, arguments.server, arguments.host, (uint16_t)arguments.port, config,
                        counters, complain, message, sizeof(message), &host);
    if (rc) {
        config_destroy(config);
        return fail(rc == -EINVAL ? 2 : 1, message);
    }
    /* Not printf nor dprintf, which allocate: a server that forks may be doing so by now. */
    int length = snprintf(message, sizeof(message), "listening on %s:%u\n", arguments.host, host_port(host));
    if (write(STDOUT_FILENO, message, (size_t)length) < 0)
        perror("kneepoint-server");
    await_stop(signals, (int)arguments.alive);
    rc = host_stop(host);
    config_destroy(config);
    munmap(counters, counters_size());
    close(signals);
    return rc ? fail(1, strerror(-rc)) : 0;
}
