/* Runs one probe once: starts its ends, keeps watch over them, collects what they measured.
 *
 * The ends are children of the caller, which must have no other threads. They die with it, and whatever goes
 * wrong they are gone when the run returns: an end that dies or leaves early, and a pair that does nothing
 * for PROBING_PATIENCE or does not leave, end the run with an error that says which. */
#ifndef KNEEPOINT_PROBING_RUN_H
#define KNEEPOINT_PROBING_RUN_H

#include "../core/probe.h"

enum { PROBING_MOST_PAIRS = 512, PROBING_MOST_ENDS = 1024, PROBING_MOST_CPUS = 64 };
/* ns, and so much more for each end that a CPU has, as each may use up a slice before it is the next one's
 * turn */
#define PROBING_PATIENCE 1200000000
#define PROBING_SLICE 20000000

struct probing_plan {
    const struct probe_ops *ops;
    const struct config *config;
    int processes;
    int pairs;
    size_t size;
    /* Where the ends run. Bound: end e of pair p on cpu[(p × ends + e) % cpus]. Else all of them wherever the
     * scheduler likes among these. */
    int cpu[PROBING_MOST_CPUS], cpus, bound;
    uint64_t iterations; /* units of each pair; 0: as many as fit into the budget */
    int64_t budget;      /* ns of the measured part */
    size_t capacity;     /* samples kept of each end */
    int alive;           /* descriptor whose closing ends the run; -1: none */
};

/* What one end did. */
struct probing_record {
    int cpu_first, cpu_last; /* where it was when the measured part began and ended */
    uint64_t migrations;     /* batches that ended on another CPU than they began on, or between them */
    uint64_t voluntary, involuntary;  /* switches from the release to the end */
    uint64_t units;                   /* of work from the release to the end; 0 of an end that answers */
    uint64_t measured;                /* of work in the measured part */
    int64_t busy_ns;                  /* processor time from the release to the end */
    int64_t began, ended;             /* the measured part, clock_now */
    uint64_t batch;                   /* units between two readings of the clock */
    uint64_t stride;                  /* of so many batches one is kept as a sample */
    double speed_before, speed_after; /* ns for fixed work, at the ends of the measured part */
    uint64_t sent, received;
    struct probe_note notes[PROBE_NOTES];
    uint64_t count; /* samples */
    double *sample; /* ns for one unit, nothing subtracted */
};

struct probing_result {
    struct probe_form form;
    size_t size;
    int64_t released;              /* clock_now when all ends were let go */
    int64_t finished;              /* and when the last pair had done its iterations */
    struct probing_record *record; /* pairs × ends */
    double clock_ns, loop_ns;      /* of a reading of the clock, of one turn of an empty loop */
    void *arena;
    size_t arena_size;
};

/* 0, or a negated errno with a line for the user in message: -EINVAL what was asked for cannot be, anything
 * else the system could not do it. */
int probing_run(const struct probing_plan *plan, struct probing_result *result, char *message, size_t room);

void probing_free(struct probing_result *result);

#endif
