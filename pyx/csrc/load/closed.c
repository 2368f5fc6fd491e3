/* A closed load: N clients, each asks, waits for the reply, thinks, and asks again. One thread, epoll.
 *
 * Each client is at any moment in one of four states, and every change of state is stamped, so that the four
 * sums add up to N times the window: connecting (no usable connection), thinking, generator (the request is
 * due, the generator has not sent it yet), response (from before the send to after the read of the last byte
 * of the reply). What is still going on at the window's end is counted up to it. Replies completed inside the
 * window are the throughput. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/distribution.h"
#include "../core/load.h"
#include "../core/placement.h"
#include "../core/registry.h"
#include "link.h"
#include "timers.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"clients", KNOB_INT, "10", "1:20000", "clients", "clients, each with at most one request under way"},
    {"think", KNOB_REAL, "0", "0:1000", "s", "mean time between a reply and the client's next request"},
    {"think_dist", KNOB_CHOICE, "exponential", DISTRIBUTION_WORDS, "", "distribution of the think time"},
    {"timeout", KNOB_REAL, "10", "0.001:3600", "s", "a request without a reply for so long is given up"},
    {"load_cpus", KNOB_TEXT, "", "list of CPUs as in 0,2-3; empty: all", "",
     "CPUs that the generator may use"},
    {0},
};

enum {
    EVENTS = 256,
    CONNECT_AT_ONCE = 256,
};
static const int64_t CONNECT_LIMIT_NS = 10000000000, RETRY_NS = 10000000, SCAN_NS = 100000000,
                     DRAIN_LIMIT_NS = 2000000000;

enum state { IDLE, CONNECTING, THINKING, GENERATOR, RESPONSE, STATES };

struct client {
    struct link link;
    enum state state;
    int finishing; /* connection=per_request: reply complete, waiting for the server to close */
    int operation;
    int64_t since; /* when the state began */
    int64_t due;   /* thinking: when the next request is planned; connecting: when to try again, or 0 */
    int64_t sent;  /* when the request under way was sent */
    struct random random;
    uint64_t count;
};

struct closed {
    struct load_env env;
    void *service_client;
    size_t count;
    double think_ns;
    enum distribution_kind think;
    int64_t timeout_ns;
    int once;
    struct client *clients;
    struct timers timers;
    int epoll, wake;
    int64_t start, end; /* the window; INT64_MAX before it is planned */
    int64_t next_scan;
    size_t connected, next_connect;
    int draining; /* nobody asks any more */
    int64_t connect_ns, connect_max_ns;
    uint64_t polls;
    int64_t spent[STATES];
    struct load_errors outside, inside;
    struct load_result *result;
};

/* Charges the time since the client's last change of state, clipped to the window. */
static void change(struct closed *load, struct client *client, enum state state, int64_t now) {
    int64_t from = client->since > load->start ? client->since : load->start;
    int64_t to = now < load->end ? now : load->end;
    if (to > from)
        load->spent[client->state] += to - from;
    client->state = state;
    client->since = now;
}

static void count_error(struct closed *load, int rc, int64_t now) {
    int inside = now >= load->start && now < load->end;
    load_count_error(inside ? &load->inside : &load->outside, rc);
}

static void hang_up(struct closed *load, struct client *client) {
    link_close(&client->link, &load->env, load->service_client);
    client->finishing = 0;
}

/* Begins to connect; a refusal that comes at once is tried again a little later. */
static void dial(struct closed *load, struct client *client, int64_t now) {
    change(load, client, CONNECTING, now);
    client->due = 0;
    int rc = link_open(&client->link, &load->env, load->service_client);
    if (rc) {
        count_error(load, rc, now);
        client->due = now + RETRY_NS;
        timers_add(&load->timers, client->due, client);
    }
}

/* Ends the connection after a failure and connects anew after a moment: that of the request already planned
 * if the client was thinking, as each client has one timer at most. */
static void fail(struct closed *load, struct client *client, int rc, int64_t now) {
    int planned = client->state == THINKING;
    count_error(load, rc, now);
    hang_up(load, client);
    change(load, client, CONNECTING, now);
    if (planned)
        return;
    client->due = now + RETRY_NS;
    timers_add(&load->timers, client->due, client);
}

static void ask(struct closed *load, struct client *client) {
    if (load->draining) {
        change(load, client, IDLE, clock_now());
        return;
    }
    int rc = load->env.service->ask(load->service_client, client->link.session, &client->random,
                                    &client->link.out);
    int64_t now = clock_now();
    change(load, client, RESPONSE, now);
    client->sent = now;
    client->operation = rc;
    if (rc >= 0)
        rc = link_send(&client->link);
    if (rc < 0)
        fail(load, client, rc, now);
}

/* The client is ready for its next request: now, or after it has thought. */
static void turn(struct closed *load, struct client *client, int64_t now) {
    if (load->think_ns > 0) {
        change(load, client, THINKING, now);
        client->due = now + (int64_t)distribution_draw(load->think, load->think_ns, &client->random);
        timers_add(&load->timers, client->due, client);
        return;
    }
    change(load, client, GENERATOR, now);
    ask(load, client);
}

/* `last`: the server ends the connection behind this reply. */
static void complete(struct closed *load, struct client *client, int last, int64_t now) {
    int64_t response = now - client->sent;
    if (now >= load->start && now < load->end) {
        histogram_record(&load->result->histogram[client->operation], (uint64_t)response);
        size_t bin = (size_t)((now - load->start) * LOAD_BINS / (load->end - load->start));
        load->result->bin_count[bin]++;
        load->result->bin_response[bin] += response;
        client->count++;
    }
    if (last || load->once) {
        client->finishing = 1;
        change(load, client, CONNECTING, now);
        return;
    }
    turn(load, client, now);
}

/* Feeds what came to the service's client side. */
static void digest(struct closed *load, struct client *client) {
    const struct service_ops *service = load->env.service;
    while (buffer_length(&client->link.in)) {
        size_t used = 0;
        int rc =
            client->state != RESPONSE
                ? -EPROTO
                : service->answer(load->service_client, client->link.session, buffer_data(&client->link.in),
                                  buffer_length(&client->link.in), &used, &client->link.out);
        buffer_consume(&client->link.in, used);
        if (rc == -EBADMSG) {
            count_error(load, rc, clock_now());
            rc = 1;
        }
        if (rc < 0) {
            fail(load, client, rc, clock_now());
            return;
        }
        if (rc == 1) {
            if (buffer_length(&client->link.in)) {
                fail(load, client, -EPROTO, clock_now());
                return;
            }
            int last = service->ends && service->ends(load->service_client, client->link.session);
            complete(load, client, last, clock_now());
            return;
        }
        if (buffer_length(&client->link.out) && (rc = link_send(&client->link))) {
            fail(load, client, rc, clock_now());
            return;
        }
        if (!used)
            return;
    }
}

/* The server has ended the connection: some replies are complete by that. */
static void conclude(struct closed *load, struct client *client) {
    const struct service_ops *service = load->env.service;
    int64_t now = clock_now();
    int rc = client->state == RESPONSE && service->finish
                 ? service->finish(load->service_client, client->link.session)
                 : 0;
    if (rc == -EBADMSG)
        count_error(load, rc, now);
    if (rc)
        complete(load, client, 1, now);
}

static void receive(struct closed *load, struct client *client) {
    long got = link_receive(&client->link);
    if (got == -EAGAIN)
        return;
    if (got == 0)
        conclude(load, client);
    if (got > 0 && !client->finishing) {
        digest(load, client);
    } else if (got == 0 && client->finishing) {
        hang_up(load, client);
        dial(load, client, clock_now());
    } else {
        fail(load, client, got == 0 ? -ENOTCONN : got > 0 ? -EPROTO : (int)got, clock_now());
    }
}

static void connected(struct closed *load, struct client *client) {
    int rc = link_opened(&client->link, &load->env, load->service_client);
    int64_t now = clock_now();
    if (rc) {
        fail(load, client, rc, now);
        return;
    }
    if (load->start != INT64_MAX) {
        turn(load, client, now);
        return;
    }
    /* Before the warm-up: the client waits for the others. */
    int64_t took = now - client->since;
    load->connect_ns += took;
    if (took > load->connect_max_ns)
        load->connect_max_ns = took;
    change(load, client, IDLE, now);
    load->connected++;
}

static void handle(struct closed *load, struct epoll_event *event) {
    struct client *client = event->data.ptr;
    if (!client || client->link.fd < 0)
        return;
    if (client->state == CONNECTING && !client->finishing) {
        connected(load, client);
        return;
    }
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(load, client);
    if (client->link.fd >= 0 && client->link.writing && client->state == RESPONSE &&
        event->events & EPOLLOUT) {
        int rc = link_send(&client->link);
        if (rc)
            fail(load, client, rc, clock_now());
    }
}

static void expire(struct closed *load, int64_t now) {
    struct client *client;
    while ((client = timers_due(&load->timers, now))) {
        if (client->state == CONNECTING) {
            dial(load, client, now);
        } else {
            change(load, client, GENERATOR, client->due);
            ask(load, client);
        }
    }
}

/* Gives up requests and connections that have taken longer than the time-out. */
static void give_up(struct closed *load, int64_t now) {
    if (now < load->next_scan)
        return;
    load->next_scan = now + SCAN_NS;
    for (size_t i = 0; i < load->count; i++) {
        struct client *client = &load->clients[i];
        int waits = client->state == RESPONSE || (client->state == CONNECTING && client->link.fd >= 0);
        if (waits && now - client->since > load->timeout_ns)
            fail(load, client, -ETIMEDOUT, now);
    }
}

/* One turn of the loop. 0, or -ECANCELED when stopped. */
static int poll_once(struct closed *load, int64_t until) {
    struct epoll_event events[EVENTS];
    int64_t now = clock_now(), next = timers_next(&load->timers);
    if (next > until)
        next = until;
    if (next > load->next_scan)
        next = load->next_scan;
    struct timespec wait = clock_spec(next > now ? next - now : 0);
    load->polls++;
    int ready = epoll_pwait2(load->epoll, events, EVENTS, &wait, NULL);
    for (int i = 0; i < ready; i++) {
        if (!events[i].data.ptr)
            return -ECANCELED;
        handle(load, &events[i]);
    }
    now = clock_now();
    expire(load, now);
    give_up(load, now);
    return 0;
}

static int connect_all(struct closed *load, char *message, size_t size) {
    int64_t limit = clock_now() + CONNECT_LIMIT_NS;
    while (load->connected < load->count) {
        while (load->next_connect < load->count && load->next_connect - load->connected < CONNECT_AT_ONCE)
            dial(load, &load->clients[load->next_connect++], clock_now());
        int rc = poll_once(load, limit);
        if (rc)
            return rc;
        if (load->outside.other || load->outside.refused || clock_now() > limit) {
            snprintf(message, size, "only %zu of %zu clients could connect%s", load->connected, load->count,
                     load->outside.other     ? ": out of descriptors, local ports or memory (see ulimit -n)"
                     : load->outside.refused ? ": connections are refused"
                                             : " within 10 s");
            return -ECONNREFUSED;
        }
    }
    return 0;
}

static void sample(struct closed *load, struct load_edge *edge) {
    load_edge_sample(&load->env, edge);
    load_edge_self(edge);
    edge->polls = load->polls;
}

static void collect(struct closed *load, struct load_result *result) {
    for (size_t i = 0; i < load->count; i++) {
        change(load, &load->clients[i], IDLE, load->end);
        result->client_count[i] = load->clients[i].count;
    }
    result->clients = load->connected;
    result->threads = 1;
    result->connect_ns = load->connect_ns;
    result->connect_max_ns = load->connect_max_ns;
    result->think_ns = load->spent[THINKING];
    result->response_ns = load->spent[RESPONSE];
    result->generator_ns = load->spent[GENERATOR];
    result->connecting_ns = load->spent[CONNECTING];
    result->errors = load->inside;
    result->errors_outside = load->outside;
}

/* A ledger must know the outcome of every request that the server has seen, also of those under way at the
 * end. */
static void drain(struct closed *load) {
    int64_t limit = clock_now() + (load->timeout_ns < DRAIN_LIMIT_NS ? load->timeout_ns : DRAIN_LIMIT_NS);
    size_t waiting = 1;
    load->draining = 1;
    while (waiting && clock_now() < limit && !poll_once(load, limit)) {
        waiting = 0;
        for (size_t i = 0; i < load->count; i++)
            waiting += load->clients[i].state == RESPONSE;
    }
}

static int drive(struct closed *load, struct load_result *result, char *message, size_t size) {
    int rc = connect_all(load, message, size);
    if (rc)
        return rc;
    int64_t now = clock_now();
    load->start = result->planned_start = now + load->env.warmup_ns;
    load->end = result->planned_end = load->start + load->env.window_ns;
    for (size_t i = 0; i < load->count; i++)
        turn(load, &load->clients[i], clock_now());
    while (clock_now() < load->start && !rc)
        rc = poll_once(load, load->start);
    if (!rc)
        sample(load, &result->start);
    while (clock_now() < load->end && !rc)
        rc = poll_once(load, load->end);
    if (!rc)
        sample(load, &result->end);
    if (!rc && load->env.service->ledger)
        drain(load);
    collect(load, result);
    return rc;
}

static int run(void *self, struct load_result *result, char *message, size_t size) {
    struct closed *load = self;
    load->result = result;
    /* The calling thread is lent: it gets its own placement and timer slack back. */
    cpu_set_t before;
    sched_getaffinity(0, sizeof(before), &before);
    int rc = placement_bind(config_text(load->env.config, "load_cpus"));
    if (rc) {
        snprintf(message, size, "load_cpus=%.64s: not a list of this machine's CPUs",
                 config_text(load->env.config, "load_cpus"));
        return rc;
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    rc = drive(load, result, message, size);
    prctl(PR_SET_TIMERSLACK, 0UL);
    sched_setaffinity(0, sizeof(before), &before);
    if (rc == -ECANCELED)
        snprintf(message, size, "the load was stopped");
    return rc;
}

static void destroy(void *self) {
    struct closed *load = self;
    for (size_t i = 0; load->clients && i < load->count; i++) {
        struct client *client = &load->clients[i];
        if (client->link.session)
            hang_up(load, client);
        link_free(&client->link);
    }
    free(load->clients);
    timers_free(&load->timers);
    if (load->service_client)
        load->env.service->client_destroy(load->service_client);
    if (load->epoll >= 0)
        close(load->epoll);
    if (load->wake >= 0)
        close(load->wake);
    free(load);
}

static int prepare_clients(struct closed *load) {
    load->clients = calloc(load->count, sizeof(*load->clients));
    if (!load->clients)
        return -ENOMEM;
    for (size_t i = 0; i < load->count; i++) {
        struct client *client = &load->clients[i];
        int rc = link_init(&client->link, load->env.service, load->epoll, client);
        if (rc)
            return rc;
        random_seed(&client->random, load->env.seed, i);
    }
    return timers_init(&load->timers, load->count);
}

static int create(const struct load_env *env, char *message, size_t size, void **out) {
    (void)message, (void)size;
    struct closed *load = calloc(1, sizeof(*load));
    if (!load)
        return -ENOMEM;
    load->env = *env;
    load->count = (size_t)config_int(env->config, "clients");
    load->think_ns = config_real(env->config, "think") * 1e9;
    load->think = distribution_named(config_text(env->config, "think_dist"));
    load->timeout_ns = (int64_t)(config_real(env->config, "timeout") * 1e9);
    load->once = config_is(env->config, "connection", "per_request");
    load->start = load->end = INT64_MAX;
    load->next_scan = clock_now() + SCAN_NS;
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    load->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    int rc = 0;
    if (load->epoll < 0 || load->wake < 0 || epoll_ctl(load->epoll, EPOLL_CTL_ADD, load->wake, &event))
        rc = -errno;
    if (!rc)
        rc = prepare_clients(load);
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
    struct closed *load = self;
    eventfd_write(load->wake, 1);
}

static void *client_of(void *self) {
    return ((struct closed *)self)->service_client;
}

static const struct load_ops closed = {
    .name = "closed",
    .summary = "N clients that wait for each reply, and think, before they ask again",
    .knobs = knobs,
    .create = create,
    .run = run,
    .stop = stop,
    .client = client_of,
    .destroy = destroy,
};
REGISTER_LOAD(closed);
