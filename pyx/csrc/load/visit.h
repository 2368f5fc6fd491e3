/* One client with a blocking socket: it connects, sends a number of requests one after another, reads each
 * reply whole before the next, and is done.
 *
 * It keeps its record in memory that the caller lends it and may share with another process: every change of
 * state is stamped, so that the states' times add up to all the time since the record was begun, and each
 * request has its stamps in a log. A failure that leaves the connection unusable ends the visit, as it
 * ends the published clients. */
#ifndef KNEEPOINT_VISIT_H
#define KNEEPOINT_VISIT_H

#include "../core/load.h"
#include <stdatomic.h>

enum visit_state { VISIT_GENERATOR, VISIT_CONNECTING, VISIT_RESPONSE, VISIT_STATES };

struct visit_request {
    int64_t due;        /* clock_now when the connection was ready for it */
    int64_t sent, done; /* before the send, and after the read of the reply's last byte */
    int operation;
};

struct visit {
    enum visit_state state;
    int64_t since; /* when the state began */
    int64_t spent[VISIT_STATES];
    int connected;
    int64_t connect_ns; /* of its first connection */
    struct load_errors errors;
    size_t count; /* requests answered */
    struct visit_request *log;
} __attribute__((aligned(64))); /* the clients run side by side: no two write the same line of the cache */

/* Charges the time since the last change to the state that ends. */
void visit_change(struct visit *visit, enum visit_state state, int64_t now);

/* Makes the visit of client `number`, of `requests` requests; it ends early, between two requests, when
 * *stopping is set. */
void visit_run(struct visit *visit, const struct load_env *env, void *service_client, uint64_t number,
               size_t requests, const _Atomic int *stopping);

#endif
