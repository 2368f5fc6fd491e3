/* How many clients there are, in all threads, or in all processes that were forked after this was made.
 *
 * Of processes it is known which of them has a client, one at most each: one that is killed cannot say that
 * its client has left. */
#ifndef KNEEPOINT_STOCK_PRESENCE_H
#define KNEEPOINT_STOCK_PRESENCE_H

struct stock_presence;

/* processes: how many there are at most; 0: threads of this process alone. 0 or -ENOMEM. */
int stock_presence_create(int processes, struct stock_presence **out);
void stock_presence_destroy(struct stock_presence *presence);

void stock_presence_enter(struct stock_presence *presence);

/* Nonzero: it was the last one. Of several that leave at the same moment, more than one may be told so. */
int stock_presence_leave(struct stock_presence *presence);

/* The process is gone, and its client, if it had one. Nonzero: that was the last one. */
int stock_presence_lost(struct stock_presence *presence, int process);

#endif
