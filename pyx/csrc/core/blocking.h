/* A thread that gives itself to one connection, with blocking calls, until that ends. */
#ifndef KNEEPOINT_BLOCKING_H
#define KNEEPOINT_BLOCKING_H

#include "conn.h"

/* Serves the connection, which stays the caller's, until it ends or *stopping is found set. That is looked at
 * before each read, as a socket that is shut down still yields what a peer goes on sending: to end a call
 * that blocks, whoever sets it shuts the socket down after that.
 *
 * A receive that took longer than 5 µs has slept, and its time was waiting for work. */
void blocking_serve(struct conn *conn, const _Atomic int *stopping, struct counter_block *me);

#endif
