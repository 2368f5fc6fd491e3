#define _GNU_SOURCE
#include "loop.h"

#include "../core/clock.h"
#include "tally.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, CONNECT_AT_ONCE = 256, SCRATCH = 65536, READS_AT_ONCE = 16 };
static const int64_t CONNECT_LIMIT_NS = 10000000000, RETRY_NS = 10000000, DRAIN_LIMIT_NS = 2000000000,
                     SCAN_LEAST_NS = 1000000, SCAN_MOST_NS = 1000000000;

/* Charges the time since the client's last change of state, clipped to the window. */
static inline void change(struct loop *loop, struct client *client, enum state state, int64_t now) {
    loop->spent[client->state] += loop_clip(loop, client->since, now);
    client->state = state;
    client->since = now;
}

static void hang_up(struct loop *loop, struct client *client) {
    link_close(&client->link, &loop->common->env, loop->common->service_client);
    client->finishing = 0;
}

static void set_timer(struct loop *loop, struct client *client, int64_t due) {
    client->due = due;
    client->timed = 1;
    timers_add(&loop->timers, due, client);
}

/* Begins to connect; a refusal that comes at once is tried again a little later. */
static void dial(struct loop *loop, struct client *client, int64_t now) {
    const struct common *common = loop->common;
    change(loop, client, CONNECTING, now);
    in_addr_t from = addresses_at(&common->addresses, loop->dials++ * common->threads + loop->thread);
    int rc = link_open(&client->link, &common->env, common->service_client, from);
    if (rc) {
        loop_count_error(loop, rc, now);
        set_timer(loop, client, now + RETRY_NS);
    }
}

/* Ends the connection after a failure. It is made anew after a moment, or, by a client that thinks, for its
 * next request. */
static void fail(struct loop *loop, struct client *client, int rc, int64_t now) {
    if (client->state == RESPONSE && loop->common->policy->done)
        loop->common->policy->done(loop, client, now);
    if (client->state == IDLE && !loop->begun)
        loop->connected--;
    loop_count_error(loop, rc, now);
    hang_up(loop, client);
    buffer_consume(&loop->out, buffer_length(&loop->out));
    if (client->timed)
        return;
    change(loop, client, CONNECTING, now);
    set_timer(loop, client, now + RETRY_NS);
}

void loop_ask(struct loop *loop, struct client *client, int64_t due, int64_t planned) {
    change(loop, client, GENERATOR, due);
    if (loop->draining) {
        change(loop, client, IDLE, due);
        return;
    }
    if (client->link.fd < 0) {
        client->overdue = 1;
        dial(loop, client, clock_now());
        return;
    }
    const struct common *common = loop->common;
    int rc =
        common->env.service->ask(common->service_client, client->link.session, &client->random, &loop->out);
    int64_t now = clock_now();
    change(loop, client, RESPONSE, now);
    client->sent = now;
    client->planned = planned ? planned : now;
    client->operation = rc;
    if (loop_inside(loop, now))
        histogram_record(loop->result.lag, (uint64_t)(now > due ? now - due : 0));
    if (rc >= 0)
        rc = link_send(&client->link, &loop->out);
    if (rc < 0)
        fail(loop, client, rc, now);
}

void loop_rest(struct loop *loop, struct client *client, int64_t now) {
    change(loop, client, THINKING, now);
}

void loop_rest_until(struct loop *loop, struct client *client, int64_t now, int64_t due) {
    change(loop, client, THINKING, now);
    set_timer(loop, client, due);
}

/* A connection has ended, as it may between two requests. */
static void renew(struct loop *loop, struct client *client, int64_t now) {
    hang_up(loop, client);
    if (client->timed)
        return; /* its next request finds out */
    if (loop->common->policy->lazy)
        loop->common->policy->ready(loop, client, now);
    else
        dial(loop, client, now);
}

/* `last`: the server ends the connection behind this reply. */
static void complete(struct loop *loop, struct client *client, int last, int64_t now) {
    const struct common *common = loop->common;
    if (common->policy->done)
        common->policy->done(loop, client, now);
    if (loop_inside(loop, now)) {
        struct load_result *result = &loop->result;
        int64_t response = now - client->planned;
        histogram_record(&result->histogram[client->operation], (uint64_t)response);
        if (common->policy->open)
            histogram_record(&result->service[client->operation], (uint64_t)(now - client->sent));
        size_t bin = loop_bin(loop, now);
        result->bin_count[bin]++;
        result->bin_response[bin] += response;
        client->count++;
    }
    if (!last && !common->once) {
        common->policy->ready(loop, client, now);
    } else if (common->once && common->client_closes) {
        renew(loop, client, now);
    } else {
        client->finishing = 1;
        change(loop, client, CONNECTING, now);
    }
}

/* One call of the service's client side. 1: the reply is complete; 0: go on; negative: it failed. */
static int answer(struct loop *loop, struct client *client, const char *bytes, size_t length, size_t *used) {
    const struct common *common = loop->common;
    *used = 0;
    if (client->state != RESPONSE)
        return -EPROTO;
    int rc = common->env.service->answer(common->service_client, client->link.session, bytes, length, used,
                                         &loop->out);
    if (rc == -EBADMSG) {
        loop_count_error(loop, rc, clock_now());
        rc = 1;
    }
    if (rc == 1 && *used < length)
        return -EPROTO;
    if (rc == 0 && buffer_length(&loop->out))
        rc = link_send(&client->link, &loop->out);
    return rc;
}

/* Gives what was read to the service's client side; what that leaves is kept until more comes. */
static void digest(struct loop *loop, struct client *client, const char *bytes, size_t length) {
    struct buffer *kept = &client->link.in;
    if (buffer_length(kept)) {
        if (buffer_put(kept, bytes, length)) {
            fail(loop, client, -EPROTO, clock_now());
            return;
        }
        bytes = buffer_data(kept);
        length = buffer_length(kept);
    }
    int rc = 0;
    size_t used = 1;
    while (length && used && !rc) {
        rc = answer(loop, client, bytes, length, &used);
        bytes += used;
        length -= used;
    }
    if (rc < 0) {
        fail(loop, client, rc, clock_now());
        return;
    }
    if (!length)
        buffer_free(kept);
    else if (buffer_length(kept))
        buffer_consume(kept, buffer_length(kept) - length);
    else if (buffer_put(kept, bytes, length))
        fail(loop, client, -EPROTO, clock_now());
    if (rc == 1) {
        const struct service_ops *service = loop->common->env.service;
        int last = service->ends && service->ends(loop->common->service_client, client->link.session);
        complete(loop, client, last, clock_now());
    }
}

/* The server has ended the connection: some replies are complete by that, and some protocols let a server end
 * what is idle. */
static void conclude(struct loop *loop, struct client *client, int64_t now) {
    const struct service_ops *service = loop->common->env.service;
    int idle = client->state == THINKING && service->ends;
    int rc = client->state == RESPONSE && service->finish
                 ? service->finish(loop->common->service_client, client->link.session)
                 : 0;
    if (rc == -EBADMSG)
        loop_count_error(loop, rc, now);
    if (rc)
        complete(loop, client, 1, now);
    if (client->finishing || idle)
        renew(loop, client, now);
    else if (!rc)
        fail(loop, client, -ENOTCONN, now);
}

/* Reads until nothing is left, but not so long that one fast peer keeps the loop from the others. */
static void receive(struct loop *loop, struct client *client, uint32_t events) {
    for (int reads = 0; reads < READS_AT_ONCE; reads++) {
        ssize_t got = recv(client->link.fd, loop->scratch, SCRATCH, MSG_DONTWAIT);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN)
                fail(loop, client, -errno, clock_now());
            return;
        }
        if (got == 0) {
            conclude(loop, client, clock_now());
            return;
        }
        if (client->finishing) {
            fail(loop, client, -EPROTO, clock_now());
            return;
        }
        digest(loop, client, loop->scratch, (size_t)got);
        if (client->link.fd < 0 || (client->state == CONNECTING && !client->finishing))
            return; /* none, or another connection by now */
        if (got < SCRATCH && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
            return;
    }
    int rc = link_again(&client->link);
    if (rc)
        fail(loop, client, rc, clock_now());
}

static void connected(struct loop *loop, struct client *client) {
    int rc = link_opened(&client->link, &loop->common->env, loop->common->service_client);
    int64_t now = clock_now();
    if (rc) {
        fail(loop, client, rc, now);
        return;
    }
    if (client->overdue) {
        client->overdue = 0;
        client->due = now;
        loop->common->policy->rung(loop, client);
        return;
    }
    if (loop->begun) {
        loop->common->policy->ready(loop, client, now);
        return;
    }
    /* Before the warm-up: the client waits for the others. */
    int64_t took = now - client->since;
    loop->result.connect_ns += took;
    if (took > loop->result.connect_max_ns)
        loop->result.connect_max_ns = took;
    change(loop, client, IDLE, now);
    loop->connected++;
}

static void handle(struct loop *loop, struct client *client, uint32_t events) {
    if (client->link.fd < 0)
        return;
    if (client->state == CONNECTING && !client->finishing) {
        connected(loop, client);
        if (client->link.fd < 0)
            return;
    }
    if (events & EPOLLOUT && buffer_length(&client->link.out)) {
        int rc = link_flush(&client->link);
        if (rc) {
            fail(loop, client, rc, clock_now());
            return;
        }
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        receive(loop, client, events);
}

/* Whether any timer had rung. */
static int expire(struct loop *loop, int64_t now) {
    struct client *client;
    int any = 0;
    while ((client = timers_due(&loop->timers, now))) {
        any = 1;
        client->timed = 0;
        if (client->state == CONNECTING)
            dial(loop, client, now);
        else
            loop->common->policy->rung(loop, client);
    }
    return any;
}

/* Gives up requests and connections that have taken longer than the time-out. */
static void give_up(struct loop *loop, int64_t now) {
    loop->next_scan = now + loop->scan_ns;
    for (size_t i = 0; i < loop->count; i++) {
        struct client *client = &loop->clients[i];
        int waits = client->state == RESPONSE || (client->state == CONNECTING && client->link.fd >= 0);
        if (waits && now - client->since > loop->common->timeout_ns)
            fail(loop, client, -ETIMEDOUT, now);
    }
}

/* One turn of the loop: sleeps until something happens or is due, or that moment, and does it. */
static int turn(struct loop *loop, int64_t until) {
    const struct policy *policy = loop->common->policy;
    struct epoll_event events[EVENTS];
    int64_t next = timers_next(&loop->timers), planned = policy->next ? policy->next(loop) : INT64_MAX;
    next = next < planned ? next : planned;
    next = next < until ? next : until;
    next = next < loop->next_scan ? next : loop->next_scan;
    struct timespec wait = clock_spec(next > loop->now ? next - loop->now : 0);
    atomic_store_explicit(&loop->polls, loop->polls + 1, memory_order_relaxed);
    int ready = epoll_pwait2(loop->epoll, events, EVENTS, &wait, NULL);
    if (ready < 0 && errno != EINTR)
        return -errno;
    for (int i = 0; i < ready; i++) {
        if (!events[i].data.ptr)
            return -ECANCELED;
        handle(loop, events[i].data.ptr, events[i].events);
    }
    loop->now = clock_now();
    int worked = expire(loop, loop->now);
    if (policy->next && policy->next(loop) <= loop->now) {
        policy->tick(loop, loop->now);
        worked = 1;
    }
    if (loop->now >= loop->next_scan) {
        give_up(loop, loop->now);
        worked = 1;
    }
    if (worked)
        loop->now = clock_now();
    return 0;
}

int loop_connect(struct loop *loop) {
    const struct load_errors *errors = &loop->result.errors_outside;
    size_t at_once = 1 + CONNECT_AT_ONCE / loop->common->threads;
    loop->now = clock_now();
    int64_t limit = loop->now + CONNECT_LIMIT_NS;
    loop->next_scan = loop->now + loop->scan_ns;
    while (loop->connected < loop->count) {
        while (loop->next_connect < loop->count && loop->next_connect - loop->connected < at_once)
            dial(loop, &loop->clients[loop->next_connect++], clock_now());
        int rc = turn(loop, limit);
        if (rc)
            return rc;
        if (errors->other || errors->refused || loop->now > limit)
            return -ECONNREFUSED;
    }
    return 0;
}

int loop_run(struct loop *loop, int64_t begin, int64_t start, int64_t end) {
    const struct policy *policy = loop->common->policy;
    loop->start = start;
    loop->end = end;
    loop->begun = 1;
    if (policy->begin)
        policy->begin(loop, begin);
    for (size_t i = 0; i < loop->count; i++) {
        struct client *client = &loop->clients[i];
        if (client->state == IDLE)
            policy->ready(loop, client, begin);
    }
    loop->now = clock_now();
    int rc = 0;
    while (loop->now < end && !rc)
        rc = turn(loop, end);
    return rc;
}

void loop_drain(struct loop *loop) {
    int64_t most = loop->common->timeout_ns < DRAIN_LIMIT_NS ? loop->common->timeout_ns : DRAIN_LIMIT_NS;
    loop->now = clock_now();
    int64_t limit = loop->now + most;
    size_t waiting = 1;
    loop->draining = 1;
    while (waiting && loop->now < limit && !turn(loop, limit)) {
        waiting = 0;
        for (size_t i = 0; i < loop->count; i++)
            waiting += loop->clients[i].state == RESPONSE;
    }
}

void loop_collect(struct loop *loop) {
    struct load_result *result = &loop->result;
    if (loop->common->policy->collect)
        loop->common->policy->collect(loop);
    for (size_t i = 0; i < loop->count; i++)
        change(loop, &loop->clients[i], IDLE, loop->end);
    result->clients = loop->connected;
    result->think_ns = loop->spent[THINKING];
    result->response_ns = loop->spent[RESPONSE];
    result->generator_ns = loop->spent[GENERATOR];
    result->connecting_ns = loop->spent[CONNECTING];
}

void loop_close(struct loop *loop) {
    for (size_t i = 0; i < loop->count; i++)
        hang_up(loop, &loop->clients[i]);
}

static int prepare_clients(struct loop *loop) {
    const struct load_env *env = &loop->common->env;
    loop->clients = calloc(loop->count, sizeof(*loop->clients));
    if (!loop->clients)
        return -ENOMEM;
    for (size_t i = 0; i < loop->count; i++)
        loop->clients[i].link.fd = -1;
    for (size_t i = 0; i < loop->count; i++) {
        struct client *client = &loop->clients[i];
        int rc = link_init(&client->link, env->service, loop->epoll, client);
        if (rc)
            return rc;
        random_seed(&client->random, env->seed, loop->first + i);
    }
    return timers_init(&loop->timers, loop->count);
}

int loop_create(struct loop *loop, const struct common *common, unsigned thread, size_t first, size_t count) {
    *loop = (struct loop){.common = common, .thread = thread, .first = first, .count = count};
    loop->start = loop->end = INT64_MAX;
    int64_t scan = common->timeout_ns / 10;
    loop->scan_ns = scan < SCAN_LEAST_NS ? SCAN_LEAST_NS : scan > SCAN_MOST_NS ? SCAN_MOST_NS : scan;
    buffer_init(&loop->out, SIZE_MAX);
    loop->scratch = malloc(SCRATCH);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (loop->epoll < 0 || epoll_ctl(loop->epoll, EPOLL_CTL_ADD, common->wake, &event))
        return -errno;
    int rc = loop->scratch ? tally_create(&loop->result, common->env.service, common->policy->open) : -ENOMEM;
    if (!rc)
        rc = prepare_clients(loop);
    return rc ? rc : common->policy->create(loop);
}

void loop_destroy(struct loop *loop) {
    for (size_t i = 0; loop->clients && i < loop->count; i++) {
        struct client *client = &loop->clients[i];
        if (client->link.session)
            hang_up(loop, client);
        link_free(&client->link);
    }
    if (loop->own)
        loop->common->policy->destroy(loop);
    free(loop->clients);
    timers_free(&loop->timers);
    tally_destroy(&loop->result);
    buffer_free(&loop->out);
    free(loop->scratch);
    if (loop->epoll >= 0)
        close(loop->epoll);
}
