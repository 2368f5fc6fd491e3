#define _GNU_SOURCE
#include "crew.h"

#include "../core/clock.h"
#include "../core/placement.h"
#include "tally.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

struct member {
    struct crew *crew;
    struct loop loop;
    pthread_t thread;
    pid_t tid;
    int rc;
};

struct crew {
    struct common common;
    struct member *members;
    unsigned created; /* loops */
    unsigned started; /* threads */

    /* Guarded by lock: how many members have connected or failed to, and what the caller then decided. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned arrived;
    enum { CONNECT, GO, OVER } phase;

    int64_t begin, start, end; /* set before phase becomes GO */
};

/* Waits until the phase is another; gives that. */
static int await_phase_after(struct crew *crew, int phase) {
    pthread_mutex_lock(&crew->lock);
    while ((int)crew->phase <= phase)
        pthread_cond_wait(&crew->changed, &crew->lock);
    int now = crew->phase;
    pthread_mutex_unlock(&crew->lock);
    return now;
}

static void arrive(struct crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->arrived++;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

static void await_members(struct crew *crew) {
    pthread_mutex_lock(&crew->lock);
    while (crew->arrived < crew->started)
        pthread_cond_wait(&crew->changed, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

static void decide(struct crew *crew, int phase) {
    pthread_mutex_lock(&crew->lock);
    crew->phase = phase;
    pthread_cond_broadcast(&crew->changed);
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *argument) {
    struct member *member = argument;
    struct crew *crew = member->crew;
    struct loop *loop = &member->loop;
    member->tid = gettid();
    member->rc = loop_connect(loop);
    arrive(crew);
    if (await_phase_after(crew, CONNECT) == GO) {
        member->rc = loop_run(loop, crew->begin, crew->start, crew->end);
        /* Until then the caller reads this thread's accounts. */
        await_phase_after(crew, GO);
        if (!member->rc && crew->common.env.service->ledger)
            loop_drain(loop);
        loop_collect(loop);
    }
    loop_close(loop);
    return NULL;
}

/* Sleeps until that moment; -ECANCELED when the load is stopped before. */
static int sleep_until(const struct crew *crew, int64_t moment) {
    for (;;) {
        struct pollfd wake = {crew->common.wake, POLLIN, 0};
        int64_t now = clock_now();
        if (now >= moment)
            return 0;
        struct timespec left = clock_spec(moment - now);
        if (ppoll(&wake, 1, &left, NULL) > 0)
            return -ECANCELED;
    }
}

static void sample(const struct crew *crew, struct load_edge *edge) {
    load_edge_sample(&crew->common.env, edge);
    for (unsigned i = 0; i < crew->started; i++) {
        const struct member *member = &crew->members[i];
        load_edge_thread(edge, member->thread, member->tid);
        edge->polls += atomic_load_explicit(&member->loop.polls, memory_order_relaxed);
    }
}

/* What connecting came to, in one line when it failed. */
static int connecting_failed(const struct crew *crew, char *message, size_t size) {
    size_t connected = 0, wanted = 0;
    struct load_result sum = {0};
    int rc = 0;
    for (unsigned i = 0; i < crew->started; i++) {
        const struct member *member = &crew->members[i];
        connected += member->loop.connected;
        wanted += member->loop.count;
        sum.errors_outside.other += member->loop.result.errors_outside.other;
        sum.errors_outside.refused += member->loop.result.errors_outside.refused;
        if (member->rc && rc != -ECANCELED)
            rc = member->rc;
    }
    if (rc && rc != -ECANCELED)
        snprintf(message, size, "only %zu of %zu clients could connect%s", connected, wanted,
                 sum.errors_outside.other     ? ": out of descriptors, local ports or memory (see ulimit -n)"
                 : sum.errors_outside.refused ? ": connections are refused"
                                              : " within 10 s");
    return rc;
}

/* The load, while its threads run. */
static int conduct(struct crew *crew, struct load_result *result, char *message, size_t size) {
    await_members(crew);
    int rc = connecting_failed(crew, message, size);
    if (rc)
        return rc;
    crew->begin = clock_now();
    crew->start = result->planned_start = crew->begin + crew->common.env.warmup_ns;
    crew->end = result->planned_end = crew->start + crew->common.env.window_ns;
    decide(crew, GO);
    rc = sleep_until(crew, crew->start);
    if (!rc) {
        sample(crew, &result->start);
        rc = sleep_until(crew, crew->end);
    }
    if (!rc)
        sample(crew, &result->end);
    return rc;
}

static int start_threads(struct crew *crew, char *message, size_t size) {
    for (unsigned i = 0; i < crew->common.threads; i++) {
        struct member *member = &crew->members[i];
        int rc = -pthread_create(&member->thread, NULL, work, member);
        if (rc) {
            snprintf(message, size, "only %u of %u load threads could be started: use fewer load_threads", i,
                     crew->common.threads);
            return rc;
        }
        crew->started++;
    }
    return 0;
}

static int employ(struct crew *crew, struct load_result *result, char *message, size_t size) {
    int rc = start_threads(crew, message, size);
    if (rc)
        crew_stop(crew);
    else
        rc = conduct(crew, result, message, size);
    decide(crew, OVER);
    result->threads = crew->started;
    result->addresses = crew->common.addresses.count;
    for (unsigned i = 0; i < crew->started; i++) {
        struct member *member = &crew->members[i];
        pthread_join(member->thread, NULL);
        if (!rc)
            rc = member->rc;
        tally_merge(result, &member->loop.result);
        for (size_t k = 0; k < member->loop.count; k++)
            result->client_count[member->loop.first + k] = member->loop.clients[k].count;
    }
    return rc;
}

int crew_run(void *self, struct load_result *result, char *message, size_t size) {
    struct crew *crew = self;
    /* Threads inherit both; the calling thread is lent, and gets its own back. */
    cpu_set_t before;
    sched_getaffinity(0, sizeof(before), &before);
    int rc = placement_bind(config_text(crew->common.env.config, "load_cpus"));
    if (rc) {
        snprintf(message, size, "load_cpus=%.64s: not a list of this machine's CPUs",
                 config_text(crew->common.env.config, "load_cpus"));
        return rc;
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    rc = employ(crew, result, message, size);
    prctl(PR_SET_TIMERSLACK, 0UL);
    sched_setaffinity(0, sizeof(before), &before);
    if (rc == -ECANCELED)
        snprintf(message, size, "the load was stopped");
    return rc;
}

void crew_stop(void *self) {
    eventfd_write(((struct crew *)self)->common.wake, 1);
}

void *crew_client(void *self) {
    return ((struct crew *)self)->common.service_client;
}

void crew_destroy(void *self) {
    struct crew *crew = self;
    for (unsigned i = 0; i < crew->created; i++)
        loop_destroy(&crew->members[i].loop);
    free(crew->members);
    if (crew->common.service_client)
        crew->common.env.service->client_destroy(crew->common.service_client);
    if (crew->common.wake >= 0)
        close(crew->common.wake);
    pthread_cond_destroy(&crew->changed);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

static int plan_addresses(struct crew *crew, size_t clients, char *message, size_t size) {
    struct common *common = &crew->common;
    double churn = common->once ? common->policy->churn(common->env.config) : 0;
    return addresses_plan(&common->addresses, &common->env, clients, churn, message, size);
}

static int create_members(struct crew *crew, size_t clients) {
    unsigned threads = crew->common.threads;
    crew->members = calloc(threads, sizeof(*crew->members));
    if (!crew->members)
        return -ENOMEM;
    for (unsigned i = 0; i < threads; i++) {
        struct member *member = &crew->members[i];
        size_t first = clients * i / threads, next = clients * (i + 1) / threads;
        member->crew = crew;
        crew->created++;
        int rc = loop_create(&member->loop, &crew->common, i, first, next - first);
        if (rc)
            return rc;
    }
    return 0;
}

int crew_create(const struct load_env *env, const struct policy *policy, char *message, size_t size,
                void **out) {
    struct crew *crew = calloc(1, sizeof(*crew));
    if (!crew)
        return -ENOMEM;
    size_t clients = (size_t)config_int(env->config, "clients");
    size_t threads = (size_t)config_int(env->config, "load_threads");
    struct common *common = &crew->common;
    common->env = *env;
    common->policy = policy;
    common->threads = (unsigned)(threads < clients ? threads : clients);
    common->timeout_ns = (int64_t)(config_real(env->config, "timeout") * 1e9);
    common->once = config_is(env->config, "connection", "per_request");
    common->client_closes = config_is(env->config, "closer", "client");
    common->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, NULL);
    int rc = common->wake < 0 ? -errno : plan_addresses(crew, clients, message, size);
    if (!rc)
        rc = env->service->client_create(env->config, env->seed, &common->service_client);
    if (!rc)
        rc = create_members(crew, clients);
    if (rc) {
        crew_destroy(crew);
        return rc;
    }
    *out = crew;
    return 0;
}
