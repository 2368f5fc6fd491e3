/* A server: how concurrency is arranged. It knows no service.
 *
 * create checks and allocates, start brings up the threads and returns, stop ends and joins them (connections
 * are cut off), destroy frees. Each function that returns int gives 0 or a negated errno; create explains
 * itself in message. */
#ifndef KNEEPOINT_SERVER_H
#define KNEEPOINT_SERVER_H

#include "config.h"
#include "counters.h"
#include "service.h"

struct server_env {
    const struct config *config;       /* complete: every knob has a value */
    const struct service_ops *service; /* what to serve */
    void *state;                       /* made by service->create */
    int listener;                      /* bound, listening, non-blocking; owned by the caller */
    struct counters *counters;
};

struct server_ops {
    const char *name;
    const char *summary;
    const struct knob *knobs;
    int max_connections; /* most connections at once; 0: only the system's limits */
    /* How many connections it serves at once, for this configuration; those beyond are not refused, but wait
     * until one of these ends. NULL, or 0: all. */
    int (*serves_at_once)(const struct config *config);
    int processes; /* it serves in processes that it forks: only a process made for it may run it */
    /* How many threads, or processes, will be inside service->run at once, for this configuration. */
    int (*threads)(const struct config *config);
    int (*create)(const struct server_env *env, char *message, size_t size, void **server);
    int (*start)(void *server);
    int (*stop)(void *server);
    void (*destroy)(void *server);
};

/* Knobs that every server has (backlog, connection, placement); a table like the others. */
extern const struct knob server_common_knobs[];

#endif
