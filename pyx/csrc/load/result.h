/* A load's result with its arrays behind it, as one block: it can be shared with the process that runs the
 * load. */
#ifndef KNEEPOINT_RESULT_H
#define KNEEPOINT_RESULT_H

#include "../core/load.h"

/* How many operations a service has. */
size_t result_operations(const struct service_ops *service);

/* Bytes of the block. */
size_t result_size(size_t operations, size_t clients);

/* Points the result's arrays into the block that it heads, in the calling process's addresses. The block is
 * all zero before the load runs; what it holds is not touched. */
void result_place(struct load_result *result, size_t operations);

#endif
