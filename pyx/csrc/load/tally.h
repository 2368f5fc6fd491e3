/* What the threads of a load record, each in a load_result of its own, and the sum of them. */
#ifndef KNEEPOINT_TALLY_H
#define KNEEPOINT_TALLY_H

#include "../core/load.h"

/* Histograms for the service's operations, and for its service times apart where the load is open. 0 or
 * -ENOMEM. */
int tally_create(struct load_result *tally, const struct service_ops *service, int open);
void tally_destroy(struct load_result *tally);

/* Adds everything but the edges, the window, threads, addresses and the counts of single clients. */
void tally_merge(struct load_result *sum, const struct load_result *part);

void tally_add_errors(struct load_errors *sum, const struct load_errors *part);

#endif
