/* Loads against servers in the same process: every account must add up exactly, whatever the server does.
 *
 *     load_loop [window in ms]
 *
 * Links with all of pyx/csrc but the programs. Exit status 1, and one line that says what and where, at the
 * first failure; otherwise the number of replies that were counted. */
#define _GNU_SOURCE
#include "core/host.h"
#include "core/load.h"
#include "core/registry.h"
#include "core/server.h"
#include "core/sock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORDS = 12 };

/* A load, and what it is run against. */
struct trial {
    const char *load, *server; /* server NULL: the faulty one below */
    const char *words[WORDS];  /* name, value, …, for both */
    int dies;                  /* the server is stopped, or the load if `stopped`, in mid-window */
    int stopped;
    int errors; /* failures are to be expected */
};

static const struct trial trials[] = {
    {"closed", "select", {"clients", "7"}, 0, 0, 0},
    {"closed", "queues", {"clients", "9", "think", "0.001", "load_threads", "3"}, 0, 0, 0},
    {"closed",
     "queues",
     {"clients", "5", "accept", "epoll", "load_threads", "2", "connection", "per_request"},
     0,
     0,
     0},
    {"closed", "select", {"clients", "4", "connection", "per_request", "closer", "client"}, 0, 0, 0},
    {"open", "select", {"clients", "20", "arrival_rate", "3000"}, 0, 0, 0},
    {"open",
     "queues",
     {"clients", "30", "arrival_rate", "4000", "arrivals", "constant", "load_threads", "3"},
     0,
     0,
     0},
    {"open",
     "queues",
     {"clients", "12", "arrival_rate", "2000", "connection", "per_request", "load_threads", "2"},
     0,
     0,
     0},
    {"open", "sbuf", {"clients", "2", "arrival_rate", "200000", "workers", "2"}, 0, 0, 0},
    {"closed", "queues", {"clients", "10", "load_threads", "4"}, 1, 0, 1},
    {"open", "queues", {"clients", "10", "arrival_rate", "2000", "load_threads", "2"}, 1, 0, 1},
    {"closed", NULL, {"clients", "6", "timeout", "0.05", "load_threads", "2"}, 0, 0, 1},
    {"open", NULL, {"clients", "6", "timeout", "0.05", "arrival_rate", "500", "load_threads", "2"}, 0, 0, 1},
    {"closed", "select", {"clients", "6", "load_threads", "3"}, 0, 1, 0},
    {"open", "select", {"clients", "6", "load_threads", "3"}, 0, 1, 0},
};

static const struct trial *current;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s on %s", current->load, current->server ? current->server : "a faulty server");
    for (int i = 0; i < WORDS && current->words[i]; i += 2)
        fprintf(stderr, " %s=%s", current->words[i], current->words[i + 1]);
    fputs(": ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(1);
}

static void equal(const char *what, int64_t left, int64_t right) {
    if (left != right)
        fail("%s: %" PRId64 " and %" PRId64, what, left, right);
}

/* A server that answers byte by byte, and every few replies does something wrong. */
struct faulty {
    int listener, wake;
    pthread_t thread;
};

static void misbehave(int fd, unsigned turn) {
    static const char reply[] = "done 0\n";
    size_t whole = sizeof(reply) - 1, length = turn % 7 == 3 ? 4 : whole;
    for (size_t i = 0; i < length; i++)
        send(fd, reply + i, 1, MSG_NOSIGNAL);
    if (turn % 11 == 5)
        send(fd, "more", 4, MSG_NOSIGNAL);
}

/* One connection after another, so that some wait for their time-out. */
static void *serve_badly(void *argument) {
    struct faulty *faulty = argument;
    unsigned turn = 0;
    for (int fd; (fd = sock_accept_wait(faulty->listener, faulty->wake)) != -ECANCELED;) {
        for (int served = 0; fd >= 0 && served < 5; served++) {
            char request[64];
            struct pollfd ready = {fd, POLLIN, 0};
            if (poll(&ready, 1, 100) <= 0 || recv(fd, request, sizeof(request), 0) <= 0)
                break;
            misbehave(fd, turn++);
            if (turn % 7 == 4)
                break;
        }
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

/* What happens in the middle of a run. */
struct accident {
    const struct load_ops *ops;
    void *load;
    struct host *host;
    int64_t after_ns;
};

static void *strike(void *argument) {
    struct accident *accident = argument;
    usleep((useconds_t)(accident->after_ns / 1000));
    if (accident->host)
        host_stop(accident->host);
    else
        accident->ops->stop(accident->load);
    return NULL;
}

static uint64_t check(const struct load_result *result, uint64_t clients) {
    uint64_t replies = 0, counted = 0, binned = 0, errors = 0;
    int64_t span = result->planned_end - result->planned_start, sum = 0, bins = 0;
    for (uint64_t i = 0; i < result->operations; i++) {
        replies += result->histogram[i].count;
        sum += (int64_t)result->histogram[i].sum;
        if (result->open)
            equal("replies and service times", (int64_t)result->histogram[i].count,
                  (int64_t)result->service[i].count);
    }
    for (uint64_t i = 0; i < clients; i++)
        counted += result->client_count[i];
    for (int i = 0; i < LOAD_BINS; i++) {
        binned += result->bin_count[i];
        bins += result->bin_response[i];
    }
#define ADD_ERROR(name, help) errors += result->errors.name;
    LOAD_ERROR_LIST(ADD_ERROR)
#undef ADD_ERROR
    equal("states and clients times window",
          result->think_ns + result->response_ns + result->generator_ns + result->connecting_ns,
          (int64_t)clients * span);
    equal("replies and those of single clients", (int64_t)replies, (int64_t)counted);
    equal("replies and bins", (int64_t)replies, (int64_t)binned);
    equal("responses and bins", sum, bins);
    equal("arrivals in the system and their times", result->in_system_ns, result->sojourn_ns);
    if (!replies)
        fail("no reply");
    if (!errors != !current->errors)
        fail("%" PRIu64 " failures", errors);
    if (result->open && result->planned + result->backlog[0] < result->sent + result->backlog[1])
        fail("more sent and waiting than planned");
    return replies;
}

/* The trial's settings; for a server those alone that it has. */
static void configure(const struct trial *trial, int serving, struct config **config) {
    if (config_create(config))
        fail("out of memory");
    for (int i = 0; i < WORDS && trial->words[i]; i += 2)
        if (!serving || knob_find(registry_server(trial->server)->knobs, trial->words[i]) ||
            knob_find(server_common_knobs, trial->words[i]))
            config_set(*config, trial->words[i], trial->words[i + 1]);
}

static uint64_t drive(const struct trial *trial, uint16_t port, struct host *host, int64_t window_ns) {
    const struct load_ops *ops = registry_load(trial->load);
    const struct service_ops *service = registry_service("synthetic");
    struct config *config;
    struct load_env env = {.service = service, .seed = 1, .warmup_ns = window_ns / 5, .window_ns = window_ns};
    char message[512] = "";
    void *load;
    configure(trial, 0, &config);
    config_fill(config, ops->knobs);
    config_fill(config, service->knobs);
    config_fill(config, server_common_knobs);
    env.config = config;
    sock_address("127.0.0.1", port, &env.to);
    if (ops->create(&env, message, sizeof(message), &load))
        fail("create: %s", message);

    uint64_t clients = (uint64_t)config_int(config, "clients"), replies = 0;
    struct load_result *result = calloc(1, sizeof(*result));
    result->operations = 1;
    result->histogram = calloc(3, sizeof(struct histogram));
    result->service = result->histogram + 1;
    result->lag = result->histogram + 2;
    result->client_count = calloc(clients, sizeof(uint64_t));
    struct accident accident = {ops, load, trial->dies ? host : NULL, window_ns / 2};
    pthread_t thread;
    int strikes = trial->dies || trial->stopped;
    if (strikes)
        pthread_create(&thread, NULL, strike, &accident);
    int rc = ops->run(load, result, message, sizeof(message));
    if (strikes)
        pthread_join(thread, NULL);
    if (trial->stopped)
        equal("status of a stopped load", rc, -ECANCELED);
    else if (rc)
        fail("run: %d %s", rc, message);
    else
        replies = check(result, clients);
    ops->destroy(load);
    config_destroy(config);
    free(result->client_count);
    free(result->histogram);
    free(result);
    return replies;
}

static uint64_t try_server(const struct trial *trial, int64_t window_ns) {
    struct config *config;
    struct host *host;
    char message[512] = "";
    struct counters *counters = aligned_alloc(64, (counters_size() + 63) / 64 * 64);
    memset(counters, 0, counters_size());
    configure(trial, 1, &config);
    int rc = host_start("synthetic", trial->server, "127.0.0.1", 0, config, counters, NULL, message,
                        sizeof(message), &host);
    if (rc)
        fail("%s", message);
    uint64_t replies = drive(trial, host_port(host), host, window_ns);
    if (!trial->dies)
        equal("the server's end", host_stop(host), 0);
    config_destroy(config);
    free(counters);
    return replies;
}

static uint64_t try_faulty(const struct trial *trial, int64_t window_ns) {
    struct faulty faulty = {.listener = sock_listen("127.0.0.1", 0, 64)};
    int wake[2];
    if (faulty.listener < 0 || pipe(wake))
        fail("no listener");
    faulty.wake = wake[0];
    pthread_create(&faulty.thread, NULL, serve_badly, &faulty);
    uint64_t replies = drive(trial, sock_port(faulty.listener), NULL, window_ns);
    close(wake[1]);
    pthread_join(faulty.thread, NULL);
    close(wake[0]);
    close(faulty.listener);
    return replies;
}

int main(int count, char **words) {
    int64_t window_ns = (count > 1 ? atol(words[1]) : 300) * 1000000;
    uint64_t replies = 0;
    for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
        current = &trials[i];
        replies += current->server ? try_server(current, window_ns) : try_faulty(current, window_ns);
    }
    printf("%" PRIu64 " replies\n", replies);
    return 0;
}
