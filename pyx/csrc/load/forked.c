/* The clock of the stock system's authors: N forked clients, each connects, sends a number of requests one
 * after another, and exits. The figure is the time from before the first fork to after the last wait, so
 * forking, connecting, the ragged end and exiting are in it.
 *
 * That whole time is the result's window; the window and warm-up asked for are not used. Every client is
 * accounted for over all of it: generator (before its first instruction, between a reply and the next
 * request, and after its end), connecting, and response. The clients write their records into memory shared
 * with the process that forked them, which reads them after the last has ended.
 *
 * It forks and waits for its children, so it runs in a small process of its own: see main_load.c. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/load.h"
#include "../core/placement.h"
#include "../core/registry.h"
#include "tally.h"
#include "visit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"clients", KNOB_INT, "10", "1:5000", "clients", "clients, each a forked process"},
    {"requests", KNOB_INT, "20", "1:1000000", "requests", "requests that each client sends before it exits"},
    {"timeout", KNOB_REAL, "10", "0.001:3600", "s", "a client without a reply for so long gives up"},
    {"load_cpus", KNOB_TEXT, "", "list of CPUs as in 0,2-3; empty: all", "", "CPUs that the clients may use"},
    {0},
};

enum { MOST_REQUESTS = 4000000 }; /* of all clients: their stamps take 128 MB */

/* The kernel gives idle time in ticks of 10 ms: a share of a shorter run would be made of rounding. */
static const int64_t IDLE_KNOWN_NS = 200000000;

/* Shared with the clients; the log lies behind the visits. */
struct hall {
    _Atomic int stopping;
    struct visit visit[];
};

struct forked {
    struct load_env env;
    void *service_client;
    size_t count, requests;
    size_t hall_size;
    struct hall *hall;
    pid_t *pid;
};

/* A client's whole life. It must not outlive its parent, which may have died before it could say so. */
static void live(struct forked *load, size_t i, pid_t parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(1);
    visit_run(&load->hall->visit[i], &load->env, load->service_client, i, load->requests,
              &load->hall->stopping);
    _exit(0);
}

/* Forks the clients; how many there are is in *forked. */
static int fork_all(struct forked *load, size_t *forked, char *message, size_t size) {
    pid_t parent = getpid();
    for (*forked = 0; *forked < load->count && !atomic_load(&load->hall->stopping); ++*forked) {
        pid_t pid = fork();
        if (!pid)
            live(load, *forked, parent);
        if (pid < 0) {
            int rc = -errno;
            snprintf(message, size, "only %zu of %zu clients could be forked: %s (see ulimit -u)", *forked,
                     load->count, strerror(-rc));
            return rc;
        }
        load->pid[*forked] = pid;
    }
    return 0;
}

/* Waits for all clients; after a failure of one of them, or one before, the others are killed. */
static int await_all(struct forked *load, size_t forked, int rc, char *message, size_t size) {
    for (size_t i = 0; i < forked; i++) {
        int status;
        if (rc)
            kill(load->pid[i], SIGKILL);
        while (waitpid(load->pid[i], &status, 0) < 0 && errno == EINTR)
            ;
        if (rc || !status)
            continue;
        rc = -ECHILD;
        if (WIFSIGNALED(status))
            snprintf(message, size, "client %zu of %zu was killed by signal %d", i + 1, load->count,
                     WTERMSIG(status));
        else
            snprintf(message, size, "client %zu of %zu ended with status %d", i + 1, load->count,
                     WEXITSTATUS(status));
    }
    return rc;
}

/* Both sides' processor time, that of the clients which have ended included. How long they waited for a CPU
 * is not known: the kernel forgets it with each of them. */
static void sample(const struct forked *load, struct load_edge *edge) {
    struct rusage ended;
    load_edge_sample(&load->env, edge);
    load_edge_self(edge);
    getrusage(RUSAGE_CHILDREN, &ended);
    edge->load_cpu += (ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) * INT64_C(1000000000) +
                      (ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) * INT64_C(1000);
    edge->sleeps += (uint64_t)ended.ru_nvcsw;
    edge->load_wait = -1;
}

static void collect_visit(const struct visit *visit, struct load_result *result) {
    int64_t span = result->planned_end - result->planned_start;
    for (size_t i = 0; i < visit->count; i++) {
        const struct visit_request *request = &visit->log[i];
        int64_t response = request->done - request->sent;
        histogram_record(&result->histogram[request->operation], (uint64_t)response);
        histogram_record(result->lag, (uint64_t)(request->sent - request->due));
        size_t bin = (size_t)((request->done - result->planned_start) * LOAD_BINS / span);
        result->bin_count[bin]++;
        result->bin_response[bin] += response;
    }
    result->connect_ns += visit->connect_ns;
    if (visit->connect_ns > result->connect_max_ns)
        result->connect_max_ns = visit->connect_ns;
    result->clients += (uint64_t)visit->connected;
    result->response_ns += visit->spent[VISIT_RESPONSE];
    result->generator_ns += visit->spent[VISIT_GENERATOR];
    result->connecting_ns += visit->spent[VISIT_CONNECTING];
    tally_add_errors(&result->errors, &visit->errors);
}

static int collect(struct forked *load, struct load_result *result, char *message, size_t size) {
    for (size_t i = 0; i < load->count; i++) {
        struct visit *visit = &load->hall->visit[i];
        visit_change(visit, VISIT_GENERATOR, result->planned_end);
        collect_visit(visit, result);
        result->client_count[i] = visit->count;
    }
    result->threads = load->count;
    result->addresses = 1;
    if (result->clients == load->count)
        return 0;
    snprintf(message, size, "only %zu of %zu clients could connect%s", (size_t)result->clients, load->count,
             result->errors.other     ? ": out of descriptors, local ports or memory (see ulimit -n)"
             : result->errors.refused ? ": connections are refused"
                                      : " within the time-out");
    return -ECONNREFUSED;
}

static int run(void *self, struct load_result *result, char *message, size_t size) {
    struct forked *load = self;
    const char *cpus = config_text(load->env.config, "load_cpus");
    int rc = placement_bind(cpus);
    if (rc) {
        snprintf(message, size, "load_cpus=%.64s: not a list of this machine's CPUs", cpus);
        return rc;
    }
    size_t forked;
    sample(load, &result->start);
    result->planned_start = clock_now();
    for (size_t i = 0; i < load->count; i++)
        load->hall->visit[i].since = result->planned_start;
    rc = fork_all(load, &forked, message, size);
    rc = await_all(load, forked, rc, message, size);
    result->planned_end = clock_now();
    sample(load, &result->end);
    if (result->planned_end - result->planned_start < IDLE_KNOWN_NS)
        result->start.idle = result->end.idle = -1;
    if (!rc && atomic_load(&load->hall->stopping)) {
        snprintf(message, size, "the load was stopped");
        rc = -ECANCELED;
    }
    return rc ? rc : collect(load, result, message, size);
}

static void destroy(void *self) {
    struct forked *load = self;
    if (load->hall)
        munmap(load->hall, load->hall_size);
    if (load->service_client)
        load->env.service->client_destroy(load->service_client);
    free(load->pid);
    free(load);
}

static int prepare_hall(struct forked *load) {
    size_t visits = sizeof(struct hall) + load->count * sizeof(struct visit);
    load->hall_size = visits + load->count * load->requests * sizeof(struct visit_request);
    void *hall =
        mmap(NULL, load->hall_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (hall == MAP_FAILED)
        return -errno;
    load->hall = hall;
    struct visit_request *log = (struct visit_request *)((char *)hall + visits);
    for (size_t i = 0; i < load->count; i++)
        load->hall->visit[i].log = log + i * load->requests;
    load->pid = calloc(load->count, sizeof(*load->pid));
    return load->pid ? 0 : -ENOMEM;
}

static int create(const struct load_env *env, char *message, size_t size, void **out) {
    struct forked *load = calloc(1, sizeof(*load));
    if (!load)
        return -ENOMEM;
    load->env = *env;
    load->count = (size_t)config_int(env->config, "clients");
    load->requests = (size_t)config_int(env->config, "requests");
    int rc = 0;
    if (load->count * load->requests > MOST_REQUESTS) {
        snprintf(message, size, "clients=%zu, requests=%zu: more than %d requests in all; use fewer",
                 load->count, load->requests, MOST_REQUESTS);
        rc = -EINVAL;
    }
    if (!rc)
        rc = prepare_hall(load);
    if (!rc)
        rc = env->service->client_create(env->config, env->seed, &load->service_client);
    if (rc) {
        destroy(load);
        return rc;
    }
    *out = load;
    return 0;
}

static void stop(void *self) {
    atomic_store(&((struct forked *)self)->hall->stopping, 1);
}

static void *client_of(void *self) {
    return ((struct forked *)self)->service_client;
}

static const struct load_ops forked = {
    .name = "forked",
    .summary = "N forked clients that send so many requests each and exit; the clock runs over all of it",
    .knobs = knobs,
    .create = create,
    .run = run,
    .stop = stop,
    .client = client_of,
    .destroy = destroy,
    .isolated = 1,
};
REGISTER_LOAD(forked);
