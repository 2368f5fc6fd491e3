/* The threads of a load: each connects its share of the clients; when all are connected they begin the
 * warm-up together, and what they recorded is added up. The calling thread asks nothing: it sleeps, and at
 * both edges of the window reads the server's and the load threads' accounts, so that reading them delays no
 * request.
 *
 * A load is a policy and these functions in its load_ops. */
#ifndef KNEEPOINT_CREW_H
#define KNEEPOINT_CREW_H

#include "loop.h"

/* Knobs that every load of this kind has. */
#define CREW_KNOBS                                                                                           \
    {"timeout", KNOB_REAL, "10", "0.001:3600", "s", "a request without a reply for so long is given up"},    \
        {"load_threads", KNOB_INT,  "1",                                                                     \
         "1:64",         "threads", "threads of the generator; clients are split evenly"},                   \
    {                                                                                                        \
        "load_cpus", KNOB_TEXT, "", "list of CPUs as in 0,2-3; empty: all", "",                              \
            "CPUs that the generator may use"                                                                \
    }

int crew_create(const struct load_env *env, const struct policy *policy, char *message, size_t size,
                void **out);
int crew_run(void *self, struct load_result *result, char *message, size_t size);
void crew_stop(void *self);
void *crew_client(void *self);
void crew_destroy(void *self);

#endif
