/* A load: who asks, how often, and what is recorded of it. It knows no server, and a service only through its
 * client side.
 *
 * load->create opens nothing; load->run connects every client, warms up, hands over to the window without
 * draining, samples the server at both edges of the window, and ends. It blocks; load_stop from another
 * thread ends it early. The caller gives run a zeroed result with the histograms and client_count in place.
 */
#ifndef KNEEPOINT_LOAD_H
#define KNEEPOINT_LOAD_H

#include "config.h"
#include "counters.h"
#include "histogram.h"
#include "service.h"
#include <netinet/in.h>
#include <pthread.h>

enum { LOAD_OPERATIONS = 8, LOAD_BINS = 20, LOAD_ROLES = ROLE_COUNT };

/* Failures of requests and connections, by kind. */
#define LOAD_ERROR_LIST(X)                                                                                   \
    X(wrong, "complete replies with a wrong content")                                                        \
    X(malformed, "replies that cannot be understood")                                                        \
    X(closed, "connections that the server closed before the reply was complete")                            \
    X(reset, "connections that were reset")                                                                  \
    X(refused, "connections that were refused")                                                              \
    X(timeout, "requests without a reply within the time-out")                                               \
    X(overloaded, "arrivals dropped because too many were waiting in the generator")                         \
    X(other, "other failures of the system")

struct load_errors {
#define LOAD_ERROR_FIELD(name, help) uint64_t name;
    LOAD_ERROR_LIST(LOAD_ERROR_FIELD)
#undef LOAD_ERROR_FIELD
};

/* What is read at one edge of the window, by a thread that asks nothing itself. */
struct load_edge {
    int64_t time;       /* clock_now */
    int64_t server_cpu; /* ns of processor time of the server process, and, as the counters tell, of those
                           that it forks; -1 when it cannot be read */
    int64_t load_cpu;   /* ns, all load threads; -1 unknown */
    int64_t load_wait;  /* ns that load threads waited for a processor (/proc/self/task/TID/schedstat); -1
                           unknown */
    int64_t idle;       /* ns that all CPUs have been idle, to 10 ms; -1 unknown */
    uint64_t polls;     /* readiness calls of the load */
    uint64_t sleeps;    /* of them, those that slept */
    uint64_t role[LOAD_ROLES][64]; /* the server's counters summed by role, in the order of COUNTER_LIST */
};

struct load_result {
    int64_t planned_start, planned_end; /* the window, clock_now */
    struct load_edge start, end;
    uint64_t clients; /* connected when the window began */
    uint64_t threads;
    uint64_t addresses; /* local addresses that connections are made from */
    int64_t connect_ns; /* sum of connect times of the initial connections */
    int64_t connect_max_ns;
    /* clipped to the window, summed over clients, ns: they add up to clients × window */
    int64_t think_ns, response_ns, generator_ns, connecting_ns;
    struct load_errors errors;         /* in the window */
    struct load_errors errors_outside; /* before it, or after it in a service with a ledger */
    uint64_t operations;               /* how many rows of `histogram` and `service` are in use */
    struct histogram *histogram;   /* response times of replies completed inside the window, by operation */
    struct histogram *lag;         /* of requests sent inside the window: from when each should have been sent
                                      until it was. May be NULL */
    uint64_t bin_count[LOAD_BINS]; /* replies by twentieth of the window */
    int64_t bin_response[LOAD_BINS]; /* sum of their response times, ns */
    uint64_t *client_count;          /* replies of each client inside the window */

    /* Only where arrivals are planned (`open`). Arrivals that were dropped are planned, and nothing else. */
    int open;
    struct histogram *service;       /* from sending to the reply, by operation; may be NULL */
    uint64_t planned;                /* arrivals planned inside the window */
    uint64_t bin_planned[LOAD_BINS]; /* the same by twentieth of the window */
    uint64_t sent;                   /* of them, those that were sent inside it */
    uint64_t backlog[2];             /* arrivals waiting for a connection at the window's edges */
    uint64_t backlog_peak;           /* most of them inside the window, summed over threads */
    uint64_t unfinished;             /* arrivals in the system at the window's end */
    int64_t unfinished_ns;           /* sum of their ages then */
    int64_t in_system_ns;            /* integral over the window of the number of arrivals in the system */
    int64_t sojourn_ns;              /* sum over arrivals of planned to done, clipped to the window */
};

struct load_env {
    const struct config *config; /* complete */
    const struct service_ops *service;
    struct sockaddr_in to;
    uint64_t seed;
    int64_t warmup_ns, window_ns;
    int server_pid;            /* 0: unknown */
    int server_tree;           /* server_pid is the root of a tree, as in proctree.h */
    struct counters *counters; /* NULL: unknown */
};

struct load_ops {
    const char *name;
    const char *summary;
    const struct knob *knobs;
    int (*create)(const struct load_env *env, char *message, size_t size, void **load);
    int (*run)(void *load, struct load_result *result, char *message, size_t size);
    void (*stop)(void *load); /* from any thread */
    /* The service's client, for its ledger; valid until destroy. */
    void *(*client)(void *load);
    void (*destroy)(void *load);
    int isolated; /* must run in a process of its own, kneepoint-load: it forks */
};

/* Reads everything that an edge holds of the server and the machine. */
void load_edge_sample(const struct load_env *env, struct load_edge *edge);

/* Reads what an edge holds of the calling load thread: load_cpu, load_wait and sleeps. */
void load_edge_self(struct load_edge *edge);

/* Adds the same of another thread of this process, which must not have ended. */
void load_edge_thread(struct load_edge *edge, pthread_t thread, pid_t tid);

/* Counts a failure, given as the negated errno that says its kind. */
void load_count_error(struct load_errors *errors, int rc);

#endif
