/* Reads a process tree again and again, in a thread of its own, and keeps what it read.
 *
 * The cost is bounded for a tree of any size. Columns are read in groups; a group whose reading took t is
 * left alone for the next 100 t, so that each takes at most a hundredth of one processor. Left alone, its
 * columns are -1, and, for the first group, the row is left out. A column is -1 too where one of the
 * processes does not let itself be read. The first row is read by sampler_start and the last by sampler_stop;
 * both are complete. */
#ifndef KNEEPOINT_SAMPLER_H
#define KNEEPOINT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

/* name, group, meaning. Cumulative ones hold what ended threads and processes had used, as far as it was
 * seen. */
#define SAMPLER_COLUMN_LIST(X)                                                                               \
    X(time, TREE, "ns, clock_now")                                                                           \
    X(processes, TREE, "that run")                                                                           \
    X(threads, TREE, "that run")                                                                             \
    X(descriptors, DESCRIPTORS, "open")                                                                      \
    X(cpu, TREE, "ns of processor time, and of reaped children; cumulative")                                 \
    X(wait, TASKS, "ns that threads waited for a processor; cumulative")                                     \
    X(pss, MEMORY, "bytes, shared pages divided among those that share them")                                \
    X(rss, MEMORY, "bytes, shared pages counted by each")                                                    \
    X(switches, TASKS, "voluntary context switches; cumulative")                                             \
    X(preemptions, TASKS, "involuntary context switches; cumulative")

enum sampler_group { SAMPLER_TREE, SAMPLER_DESCRIPTORS, SAMPLER_TASKS, SAMPLER_MEMORY, SAMPLER_GROUPS };

enum sampler_column {
#define SAMPLER_COLUMN(name, group, help) SAMPLER_##name,
    SAMPLER_COLUMN_LIST(SAMPLER_COLUMN)
#undef SAMPLER_COLUMN
        SAMPLER_COLUMNS
};

struct sampler_row {
    int64_t value[SAMPLER_COLUMNS];
};

struct sampler;

/* root as in proctree.h. 0, -ESRCH when it is gone, -ENOMEM, or what pthread_create says. */
int sampler_start(int root, int64_t interval_ns, struct sampler **out);

/* Ends the thread; the rows stay until sampler_destroy. Call it once. */
void sampler_stop(struct sampler *sampler, const struct sampler_row **rows, size_t *count);

void sampler_destroy(struct sampler *sampler);

#endif
