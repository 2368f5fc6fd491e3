/* An open load: requests arrive by a schedule that never waits for replies.
 *
 * An arrival is sent by the connection that has been free for longest; while none is free it waits in the
 * generator, first come, first served, as a number of 8 bytes. Its response is counted from the planned
 * moment, its service time from when it was sent. Nothing is back-filled: an arrival without a reply has no
 * time, and is counted as unfinished.
 *
 * Two accounts are kept apart, for a check: the number of arrivals in the system, integrated over the window
 * as arrivals and ends of requests are noticed; and the sum of each arrival's own time. */
#include "../core/registry.h"
#include "crew.h"
#include "schedule.h"

#include <errno.h>
#include <stdlib.h>

static const struct knob knobs[] = {
    {"arrival_rate", KNOB_REAL, "1000", "0.001:10000000", "1/s", "requests that arrive in a second"},
    {"arrivals", KNOB_CHOICE, "poisson", "poisson|constant", "",
     "independent moments, or equal times between them"},
    {"clients", KNOB_INT, "100", "1:20000", "clients",
     "connections; an arrival without a free one waits in the generator"},
    CREW_KNOBS,
    {0},
};

enum { MOST_WAITING = 4 << 20, FIRST_WAITING = 1024, ARRIVALS_AT_ONCE = 256 };

struct arrivals {
    struct schedule schedule;
    int64_t origin, next; /* next: INT64_MAX before the load begins */

    /* Planned moments of those that wait: a ring whose size is a power of 2. */
    int64_t *waiting;
    size_t size, head, count, most;

    /* Free connections, longest free first; one that fails stays listed, and is passed over. */
    struct client **free;
    size_t free_head, free_count;

    /* Before the window's start and before its end: arrivals planned, of them not dropped, and sent. */
    uint64_t planned[2], admitted[2], sent[2];
    uint64_t peak, sent_inside, ended_late;
    int64_t late_ns; /* ages at the window's end of those that ended after it */

    int64_t in_system, counted; /* how many, up to which moment it is integrated */
};

static int prepare(struct loop *loop) {
    const struct load_env *env = &loop->common->env;
    struct arrivals *arrivals = loop->own = calloc(1, sizeof(*arrivals));
    if (!arrivals)
        return -ENOMEM;
    schedule_init(&arrivals->schedule, config_is(env->config, "arrivals", "poisson"),
                  config_real(env->config, "arrival_rate"), env->seed, loop->thread, loop->common->threads);
    arrivals->next = INT64_MAX;
    arrivals->size = FIRST_WAITING;
    arrivals->most = MOST_WAITING / loop->common->threads;
    arrivals->waiting = malloc(arrivals->size * sizeof(*arrivals->waiting));
    arrivals->free = malloc(loop->count * sizeof(struct client *));
    return arrivals->waiting && arrivals->free ? 0 : -ENOMEM;
}

static void release(struct loop *loop) {
    struct arrivals *arrivals = loop->own;
    free(arrivals->waiting);
    free(arrivals->free);
    free(arrivals);
}

/* Integrates up to a moment. Moments need not come in order: a step back takes away what was too much. */
static void advance(struct loop *loop, int64_t now) {
    struct arrivals *arrivals = loop->own;
    int64_t from = arrivals->counted, span = loop_clip(loop, from, now) - loop_clip(loop, now, from);
    loop->result.in_system_ns += arrivals->in_system * span;
    arrivals->counted = now;
}

/* Room for one more; -EOVERFLOW beyond the limit. */
static int make_room(struct arrivals *arrivals) {
    if (arrivals->count < arrivals->size)
        return 0;
    if (arrivals->size * 2 > arrivals->most)
        return -EOVERFLOW;
    int64_t *waiting = malloc(2 * arrivals->size * sizeof(*waiting));
    if (!waiting)
        return -ENOMEM;
    for (size_t i = 0; i < arrivals->count; i++)
        waiting[i] = arrivals->waiting[(arrivals->head + i) & (arrivals->size - 1)];
    free(arrivals->waiting);
    arrivals->waiting = waiting;
    arrivals->size *= 2;
    arrivals->head = 0;
    return 0;
}

static struct client *free_client(struct arrivals *arrivals, size_t capacity) {
    while (arrivals->free_count) {
        struct client *client = arrivals->free[arrivals->free_head];
        arrivals->free_head = (arrivals->free_head + 1) % capacity;
        arrivals->free_count--;
        client->listed = 0;
        if (client->state == THINKING)
            return client;
    }
    return NULL;
}

static void send_arrival(struct loop *loop, struct client *client, int64_t planned) {
    struct arrivals *arrivals = loop->own;
    loop_ask(loop, client, planned > client->since ? planned : client->since, planned);
    int64_t sent = client->sent;
    arrivals->sent[0] += sent < loop->start;
    arrivals->sent[1] += sent < loop->end;
    arrivals->sent_inside += planned >= loop->start && sent < loop->end;
}

/* An arrival that finds no connection. */
static void queue_up(struct loop *loop, int64_t planned) {
    struct arrivals *arrivals = loop->own;
    arrivals->waiting[(arrivals->head + arrivals->count++) & (arrivals->size - 1)] = planned;
    if (loop_inside(loop, planned) && arrivals->count > arrivals->peak)
        arrivals->peak = arrivals->count;
}

/* The next planned arrival is there; the client, if there is one, is free for it. */
static void arrive(struct loop *loop, struct client *client) {
    struct arrivals *arrivals = loop->own;
    int64_t planned = arrivals->next;
    arrivals->next = arrivals->origin + schedule_next(&arrivals->schedule);
    int early[2] = {planned < loop->start, planned < loop->end};
    arrivals->planned[0] += early[0];
    arrivals->planned[1] += early[1];
    if (loop_inside(loop, planned))
        loop->result.bin_planned[loop_bin(loop, planned)]++;
    if (!client && make_room(arrivals)) {
        loop_count_error(loop, -EOVERFLOW, planned);
        return;
    }
    arrivals->admitted[0] += early[0];
    arrivals->admitted[1] += early[1];
    advance(loop, planned);
    arrivals->in_system++;
    if (client)
        send_arrival(loop, client, planned);
    else
        queue_up(loop, planned);
}

static void begin(struct loop *loop, int64_t now) {
    struct arrivals *arrivals = loop->own;
    arrivals->origin = arrivals->counted = now;
    arrivals->next = now + schedule_next(&arrivals->schedule);
}

static int64_t next(struct loop *loop) {
    const struct arrivals *arrivals = loop->own;
    return loop->draining ? INT64_MAX : arrivals->next;
}

/* At most so many, and then a look at the replies: above what one thread can send, each tick would otherwise
 * find more to do than the last. */
static void tick(struct loop *loop, int64_t now) {
    struct arrivals *arrivals = loop->own;
    for (int i = 0; i < ARRIVALS_AT_ONCE && arrivals->next <= now; i++)
        arrive(loop, arrivals->count ? NULL : free_client(arrivals, loop->count));
}

static void ready(struct loop *loop, struct client *client, int64_t now) {
    struct arrivals *arrivals = loop->own;
    loop_rest(loop, client, now);
    if (arrivals->count && !loop->draining) {
        int64_t planned = arrivals->waiting[arrivals->head];
        arrivals->head = (arrivals->head + 1) & (arrivals->size - 1);
        arrivals->count--;
        send_arrival(loop, client, planned);
    } else if (!client->listed) {
        client->listed = 1;
        arrivals->free[(arrivals->free_head + arrivals->free_count++) % loop->count] = client;
    }
}

static void done(struct loop *loop, struct client *client, int64_t now) {
    struct arrivals *arrivals = loop->own;
    advance(loop, now);
    arrivals->in_system--;
    loop->result.sojourn_ns += loop_clip(loop, client->planned, now);
    if (now >= loop->end && client->planned < loop->end) {
        arrivals->ended_late++;
        arrivals->late_ns += loop->end - client->planned;
    }
}

/* An arrival whose end the load does not live to see. */
static void leave(struct loop *loop, int64_t planned) {
    if (planned >= loop->end)
        return;
    loop->result.unfinished++;
    loop->result.unfinished_ns += loop->end - planned;
    loop->result.sojourn_ns += loop_clip(loop, planned, loop->end);
}

static void collect(struct loop *loop) {
    struct arrivals *arrivals = loop->own;
    struct load_result *result = &loop->result;
    while (arrivals->next < loop->end)
        arrive(loop, NULL);
    advance(loop, loop->end);
    for (size_t i = 0; i < arrivals->count; i++)
        leave(loop, arrivals->waiting[(arrivals->head + i) & (arrivals->size - 1)]);
    for (size_t i = 0; i < loop->count; i++)
        if (loop->clients[i].state == RESPONSE)
            leave(loop, loop->clients[i].planned);
    result->unfinished += arrivals->ended_late;
    result->unfinished_ns += arrivals->late_ns;
    result->planned = arrivals->planned[1] - arrivals->planned[0];
    result->sent = arrivals->sent_inside;
    for (int edge = 0; edge < 2; edge++) {
        result->backlog[edge] = arrivals->admitted[edge] - arrivals->sent[edge];
        if (result->backlog[edge] > arrivals->peak)
            arrivals->peak = result->backlog[edge];
    }
    result->backlog_peak = arrivals->peak;
}

static double churn(const struct config *config) {
    return config_real(config, "arrival_rate");
}

static const struct policy policy = {
    .open = 1,
    .churn = churn,
    .create = prepare,
    .destroy = release,
    .begin = begin,
    .ready = ready,
    .done = done,
    .next = next,
    .tick = tick,
    .collect = collect,
};

static int create(const struct load_env *env, char *message, size_t size, void **out) {
    return crew_create(env, &policy, message, size, out);
}

static const struct load_ops open_load = {
    .name = "open",
    .summary = "requests that arrive by a schedule, whether or not earlier ones were answered",
    .knobs = knobs,
    .create = create,
    .run = crew_run,
    .stop = crew_stop,
    .client = crew_client,
    .destroy = crew_destroy,
};
REGISTER_LOAD(open_load);
