/* What the threads of processes have had since each began: a sum that does not fall when one ends.
 *
 * The kernel forgets a thread's waiting and switches with the thread, so what was last seen of those that
 * ended is kept here. What a thread had after it was last seen is lost, and a thread that was never seen,
 * wholly. */
#ifndef KNEEPOINT_TASKS_H
#define KNEEPOINT_TASKS_H

#include <stddef.h>
#include <stdint.h>

enum { TASKS_WAIT, TASKS_SWITCHES, TASKS_PREEMPTIONS, TASKS_VALUES };

struct task_seen {
    int thread;
    int64_t value[TASKS_VALUES]; /* -1: not readable */
};

struct tasks {
    struct task_seen *seen, *before; /* by thread number; this round's and the last one's */
    size_t count, capacity, count_before, capacity_before;
    int64_t ended[TASKS_VALUES];
};

/* Starts a round: what was seen becomes what was seen before. */
void tasks_begin(struct tasks *tasks);

/* Reads all threads of a process. 0, or -ENOMEM. */
int tasks_read(struct tasks *tasks, int pid);

/* Ends the round: the sums, -1 for one that was not readable everywhere. */
void tasks_end(struct tasks *tasks, int64_t sums[TASKS_VALUES]);

/* Frees what a zeroed struct tasks has come to hold. */
void tasks_free(struct tasks *tasks);

#endif
