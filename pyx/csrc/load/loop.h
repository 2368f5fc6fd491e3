/* One load thread: its event loop, its connections, and what it records of them.
 *
 * Each connection (client) is at any moment in one of a few states, and every change of state is stamped, so
 * that the sums add up to the number of clients times the window: connecting (no usable connection), thinking
 * (nothing to ask), generator (a request is due, the generator has not sent it yet), response (from before
 * the send to after the read of the last byte of the reply). What is still going on at the window's end is
 * counted up to it. Replies completed inside the window are the throughput.
 *
 * When a request is due is the policy's business, and a load is little more than its policy. A loop belongs
 * to one thread, except for `polls`, which others may read. */
#ifndef KNEEPOINT_LOOP_H
#define KNEEPOINT_LOOP_H

#include "../core/load.h"
#include "../core/random.h"
#include "addresses.h"
#include "link.h"
#include "timers.h"

#include <stdatomic.h>

enum state { IDLE, CONNECTING, THINKING, GENERATOR, RESPONSE, STATES };

struct client {
    struct link link;
    enum state state;
    unsigned char finishing; /* connection=per_request: reply complete, waiting for the server to close */
    unsigned char timed;     /* has its entry in the timers */
    unsigned char overdue;   /* its request is due, and waits for a connection */
    unsigned char listed;    /* for the policy */
    int operation;
    int64_t since;   /* when the state began */
    int64_t due;     /* when its timer rings */
    int64_t planned; /* the moment from which the response is counted */
    int64_t sent;    /* when the request under way was sent */
    struct random random;
    uint64_t count;
};

struct loop;

/* What makes a load; `own` of the loop is its data. */
struct policy {
    int open; /* requests are planned, and kept apart from when they are sent */
    int lazy; /* a connection that has ended is made anew when the next request is due, not at once */

    /* How many new connections a second are certain with connection=per_request; negative: unknown. */
    double (*churn)(const struct config *config);

    int (*create)(struct loop *loop);
    void (*destroy)(struct loop *loop);

    /* The load begins at that moment: `ready` follows for every client. May be NULL. */
    void (*begin)(struct loop *loop, int64_t now);

    /* The client has nothing to do, and a connection, unless the policy is lazy. */
    void (*ready)(struct loop *loop, struct client *client, int64_t now);

    /* The timer set by loop_rest_until has rung, or the connection is there that the request then lacked.
     * NULL where none is set. */
    void (*rung)(struct loop *loop, struct client *client);

    /* The client's request has ended, with a reply or by a failure. May be NULL. */
    void (*done)(struct loop *loop, struct client *client, int64_t now);

    /* When tick is to be called next, and that call, which may leave some of its work to the next one. NULL
     * where there is nothing of the kind. */
    int64_t (*next)(struct loop *loop);
    void (*tick)(struct loop *loop, int64_t now);

    /* Completes the result, after the end of the window. May be NULL. */
    void (*collect)(struct loop *loop);
};

/* What all threads of a load have in common. */
struct common {
    struct load_env env;
    const struct policy *policy;
    void *service_client;
    struct addresses addresses;
    unsigned threads;
    int wake; /* eventfd: readable when the load is to stop */
    int64_t timeout_ns;
    int once;          /* connection=per_request */
    int client_closes; /* and who closes */
};

struct loop {
    const struct common *common;
    void *own;
    unsigned thread;
    size_t first, count; /* of all clients, those that are this loop's */
    struct client *clients;
    struct timers timers;
    int epoll;
    char *scratch;      /* what was just read */
    struct buffer out;  /* what is just being sent */
    int64_t now;        /* of the present turn */
    int64_t start, end; /* the window; INT64_MAX before it is planned */
    int64_t next_scan, scan_ns;
    size_t connected, next_connect;
    uint64_t dials;
    int begun, draining;
    _Atomic uint64_t polls;
    int64_t spent[STATES];
    struct load_result result; /* histograms of its own; edges unused */
};

/* Functions that return int give 0 or a negated errno; -ECANCELED when the load is to stop. */
int loop_create(struct loop *loop, const struct common *common, unsigned thread, size_t first, size_t count);
void loop_destroy(struct loop *loop);

/* Connects every client. */
int loop_connect(struct loop *loop);

/* Runs the load: warm-up from `begin`, then the window. */
int loop_run(struct loop *loop, int64_t begin, int64_t start, int64_t end);

/* Waits for the replies to requests under way, for a while. */
void loop_drain(struct loop *loop);

/* Completes the loop's result. */
void loop_collect(struct loop *loop);

/* Closes every connection: a server that is ended politely may wait for those that are open. */
void loop_close(struct loop *loop);

/* For policies: the client sends its next request, which should have been sent at `due`; its response is
 * counted from `planned`, or from when it is sent if that is 0. */
void loop_ask(struct loop *loop, struct client *client, int64_t due, int64_t planned);

/* For policies: the client has nothing to ask until its timer rings, or until somebody asks by it. */
void loop_rest_until(struct loop *loop, struct client *client, int64_t now, int64_t due);
void loop_rest(struct loop *loop, struct client *client, int64_t now);

/* The part of a stretch of time that lies inside the window. */
static inline int64_t loop_clip(const struct loop *loop, int64_t from, int64_t to) {
    from = from > loop->start ? from : loop->start;
    to = to < loop->end ? to : loop->end;
    return to > from ? to - from : 0;
}

static inline int loop_inside(const struct loop *loop, int64_t now) {
    return now >= loop->start && now < loop->end;
}

/* Which twentieth of the window a moment inside it lies in. */
static inline size_t loop_bin(const struct loop *loop, int64_t now) {
    return (size_t)((now - loop->start) * LOAD_BINS / (loop->end - loop->start));
}

static inline void loop_count_error(struct loop *loop, int rc, int64_t now) {
    load_count_error(loop_inside(loop, now) ? &loop->result.errors : &loop->result.errors_outside, rc);
}

#endif
