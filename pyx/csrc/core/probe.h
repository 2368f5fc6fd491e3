/* A probe: what one primitive of this machine costs, measured by itself. */
#ifndef KNEEPOINT_PROBE_H
#define KNEEPOINT_PROBE_H

#include "config.h"
#include <stddef.h>
#include <stdint.h>

struct probe_ops {
    const char *name;
    const char *summary;
    const char *unit_of_work; /* what one sample times */
    const struct knob *knobs;
    /* Fills samples (ns for one unit of work, the mean of a batch) and sets *count to how many were made, at
     * most `capacity`, within about budget_ns. 0 or a negated errno. */
    int (*run)(const struct config *config, int64_t budget_ns, double *samples, size_t capacity,
               size_t *count);
};

#endif
