/* kneepoint-server SERVICE SERVER [--host H] [--port P] [--counters FD] [--alive FD] [name=value …]
 *
 * Runs one server until SIGINT or SIGTERM, or until the pipe behind --alive closes: whoever started the
 * server holds the other end, so a server never outlives it, however it dies. Prints "listening on HOST:PORT"
 * first. Exit status: 0 stopped in order, 1 the system refused something, 2 wrong arguments. */
#define _GNU_SOURCE
#include "core/host.h"
#include "core/placement.h"

#include <errno.h>
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
    long port;
    int counters, alive;
};

static int fail(int status, const char *message) {
    fprintf(stderr, "kneepoint-server: %s\n", message);
    return status;
}

static int number(const char *text, long high, long *out) {
    char *end;
    *out = strtol(text, &end, 10);
    return *text && !*end && *out >= 0 && *out <= high ? 0 : -EINVAL;
}

static int read_arguments(int count, char **words, struct arguments *arguments, struct config *config) {
    *arguments = (struct arguments){.host = "127.0.0.1", .counters = -1, .alive = -1};
    for (int i = 1; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (!strncmp(words[i], "--", 2)) {
            long value = 0;
            int numeric = strcmp(words[i], "--host");
            if (i + 1 == count || (numeric && number(words[i + 1], 65535, &value)))
                return -EINVAL;
            if (!numeric)
                arguments->host = words[i + 1];
            else if (!strcmp(words[i], "--port"))
                arguments->port = value;
            else if (!strcmp(words[i], "--counters"))
                arguments->counters = (int)value;
            else if (!strcmp(words[i], "--alive"))
                arguments->alive = (int)value;
            else
                return -EINVAL;
            i++;
        } else if (equals) {
            *equals = 0;
            int rc = config_set(config, words[i], equals + 1);
            if (rc)
                return rc;
        } else if (!arguments->service) {
            arguments->service = words[i];
        } else if (!arguments->server) {
            arguments->server = words[i];
        } else {
            return -EINVAL;
        }
    }
    return arguments->server ? 0 : -EINVAL;
}

static struct counters *map_counters(int fd) {
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *page = mmap(NULL, counters_size(), PROT_READ | PROT_WRITE, flags, fd, 0);
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
    int signals = signalfd(-1, &stops, SFD_CLOEXEC);
    struct counters *counters = map_counters(arguments.counters);
    if (signals < 0 || !counters) {
        config_destroy(config);
        return fail(1, strerror(errno));
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    const char *cpus = config_text(config, "server_cpus");
    struct host *host = NULL;
    int rc = placement_bind(cpus ? cpus : "");
    if (rc)
        snprintf(message, sizeof(message), "server_cpus=%.64s: not a list of this machine's CPUs", cpus);
    else
        rc = host_start(arguments.service, arguments.server, arguments.host, (uint16_t)arguments.port, config,
                        counters, message, sizeof(message), &host);
    if (rc) {
        config_destroy(config);
        return fail(rc == -EINVAL ? 2 : 1, message);
    }
    printf("listening on %s:%u\n", arguments.host, host_port(host));
    fflush(stdout);
    await_stop(signals, arguments.alive);
    rc = host_stop(host);
    config_destroy(config);
    munmap(counters, counters_size());
    close(signals);
    return rc ? fail(1, strerror(-rc)) : 0;
}
