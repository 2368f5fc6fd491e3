/* A fixed set of workers, each with its own queue of tasks, that run the parts of requests. Workers can
 * steal.
 *
 * A job is one connection's request in work. Whoever owns the connection submits the job and then touches
 * neither it nor the connection until it is finished, which becomes known in one of two ways: `remaining` is
 * seen to be 0 by an acquire load (finish is NULL), or finish is called by the worker that ran the last task.
 * Either is the workers' last touch of job and connection, so both may be freed from then on. 0 or a negated
 * errno. */
#ifndef KNEEPOINT_TASKPOOL_H
#define KNEEPOINT_TASKPOOL_H

#include "conn.h"
#include "stealing.h"

struct taskpool;

struct job {
    struct conn *conn;
    void (*finish)(struct job *job, struct counter_block *me);
    _Atomic uint32_t remaining; /* tasks that have not run */
    struct random random;       /* where the next request's first task goes */
    struct task *tasks;         /* used again for every request of the connection */
    uint32_t capacity;
};

struct taskpool_options {
    size_t workers;
    uint32_t chunk; /* units of work in a task */
    int spin;       /* workers without a task poll their queue under its lock, or else sleep */
    const struct stealing_rule *steal; /* whom a worker robs that has no task */
    uint32_t backoff_looks;            /* of a rule that backs off: so many empty looks, */
    int64_t backoff_ns;                /* then a sleep: with spin so long, or else until woken */
};

/* The stream tells jobs apart in their random draws. */
void job_init(struct job *job, struct conn *conn, uint64_t stream,
              void (*finish)(struct job *, struct counter_block *));
void job_free(struct job *job);

int taskpool_create(const struct taskpool_options *options, struct taskpool **out);
void taskpool_destroy(struct taskpool *pool);

/* Starts the workers; on failure none is left. */
int taskpool_start(struct taskpool *pool, struct counters *counters);

/* Splits the request that the session holds and puts its tasks, one by one, round robin from a random queue.
 * From any thread, `me` being its block. -ENOMEM: none was put. */
int taskpool_submit(struct taskpool *pool, struct job *job, struct counter_block *me);

/* From now on tasks count down without being run: the connections are cut off. */
void taskpool_cut(struct taskpool *pool);

/* Nonzero after taskpool_cut. Seen at the latest by who is told of the end of a job with a task that was not
 * run. */
int taskpool_is_cut(const struct taskpool *pool);

/* Lets the workers empty the queues, then ends and joins them. Nobody else may submit any more. */
int taskpool_end(struct taskpool *pool);

#endif
