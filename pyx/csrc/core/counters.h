/* Live counters of a server: a page of shared memory with one block for each of its threads.
 *
 * The page is made by whoever starts the server (an anonymous file, or private memory for an in-process
 * server) and only grows: a thread that ends gives its block back as it stands and the next thread of the
 * same role goes on in it, so the sum over blocks is exact at all times and nothing is ever reset. Each block
 * has one writer; a reader may see a value one step old, never a torn one. A process that a server forks
 * writes the block that its forker lends it, and the forker takes it back when the process has ended. */
#ifndef KNEEPOINT_COUNTERS_H
#define KNEEPOINT_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rusage;

/* X(name, unit, kind, what it counts). Kind: sum = add over threads; gauge = the value now; peak = the
 * highest so far. */
#define COUNTER_LIST(X)                                                                                      \
    X(accepted, "connections", "sum", "connections accepted")                                                \
    X(closed, "connections", "sum", "connections closed")                                                    \
    X(requests, "requests", "sum", "requests answered")                                                      \
    X(errors, "events", "sum", "requests refused and connections broken off")                                \
    X(tasks, "tasks", "sum", "tasks run")                                                                    \
    X(busy_ns, "ns", "sum", "time spent in the service's work")                                              \
    X(wait_ns, "ns", "sum", "time waiting for work")                                                         \
    X(lock_wait_ns, "ns", "sum", "time waiting for a lock that another thread held")                         \
    X(lock_waits, "events", "sum", "times a lock was found held")                                            \
    X(steals_tried, "events", "sum", "looks into another worker's queue")                                    \
    X(steals, "tasks", "sum", "tasks taken from another worker's queue")                                     \
    X(polls, "events", "sum", "readiness calls")                                                             \
    X(sleeps, "events", "sum", "waits that found nothing ready and slept")                                   \
    X(spins, "events", "sum", "turns of a spinning wait")                                                    \
    X(queue_depth, "items", "gauge", "items in this thread's queue")                                         \
    X(queue_peak, "items", "peak", "most items this thread's queue has held")                                \
    X(demand_ns, "ns", "sum", "demand drawn by the synthetic service")                                       \
    X(cpu_ns, "ns", "sum", "processor time used")                                                            \
    X(switches, "switches", "sum", "voluntary context switches")                                             \
    X(preemptions, "switches", "sum", "involuntary context switches")                                        \
    X(died, "processes", "sum", "serving processes that were killed or crashed")

enum counter_role {
    ROLE_NONE,
    ROLE_LOOP,       /* event loop: accepts, reads, works, writes */
    ROLE_ACCEPTOR,   /* accepts, and watches idle connections */
    ROLE_CONNECTION, /* a thread that belongs to one connection */
    ROLE_WORKER,     /* takes work from a queue */
    ROLE_COUNT,
};

#define COUNTER_BLOCKS 4096

struct counter_block {
    _Atomic uint32_t role;
    _Atomic uint32_t taken; /* nonzero while a thread owns the block */
    _Atomic uint64_t tid;   /* the owner, or the last one */
    int64_t published;      /* when the owner last ran counters_publish */
    uint64_t base[3];       /* cpu_ns, switches, preemptions of the block's earlier owners */
    /* 0: the owner is a thread of the server's own process. Else a process: its number, -1 when it has
     * ended. */
    _Atomic int process;
#define COUNTER_FIELD(name, unit, kind, help) _Atomic uint64_t name;
    COUNTER_LIST(COUNTER_FIELD)
#undef COUNTER_FIELD
} __attribute__((aligned(64)));

struct counters {
    _Atomic uint64_t used; /* blocks ever claimed: block[0 … used−1] are meaningful */
    char pad[56];
    struct counter_block block[COUNTER_BLOCKS];
};

/* Bytes to map. */
static inline size_t counters_size(void) {
    return sizeof(struct counters);
}

/* A block for the calling thread; never NULL (with all blocks taken, the last one is shared and says so by
 * tid 0). */
struct counter_block *counters_claim(struct counters *counters, enum counter_role role);
void counters_release(struct counter_block *block);

/* A block that its owner lends to a process: counters_lend just before the fork, counters_lent after it. When
 * the process has been waited for, counters_settle takes the block back, with all that it used, which nobody
 * else knows if it was killed. counters_vacate gives up a block that is not lent. */
void counters_lend(struct counter_block *block);
void counters_lent(struct counter_block *block, pid_t pid);
void counters_settle(struct counter_block *block, const struct rusage *usage);
void counters_vacate(struct counter_block *block);

/* Processor time of a block that is or was lent, up to now. */
int64_t counters_process_cpu(struct counter_block *block);

/* Adds to a counter of a block that the caller owns: one writer, so no locked instruction is needed. */
#define COUNT(block, name, amount)                                                                           \
    atomic_store_explicit(&(block)->name,                                                                    \
                          atomic_load_explicit(&(block)->name, memory_order_relaxed) + (uint64_t)(amount),   \
                          memory_order_relaxed)

/* Writes a gauge and raises its peak; for the pair queue_depth and queue_peak. Callers hold the queue's lock.
 */
static inline void counters_depth(struct counter_block *block, uint64_t depth) {
    atomic_store_explicit(&block->queue_depth, depth, memory_order_relaxed);
    if (depth > atomic_load_explicit(&block->queue_peak, memory_order_relaxed))
        atomic_store_explicit(&block->queue_peak, depth, memory_order_relaxed);
}

enum { COUNTERS_PUBLISH_NS = 2000000 };

/* Brings cpu_ns, switches and preemptions of the calling thread up to date. */
void counters_publish_now(struct counter_block *block, int64_t now);

/* The same, at most once in two milliseconds: a thread calls it on every turn of its loop, so that a reader
 * finds the processor time of each thread a few milliseconds old at most, without reading /proc. */
static inline void counters_publish(struct counter_block *block, int64_t now) {
    if (now - block->published > COUNTERS_PUBLISH_NS)
        counters_publish_now(block, now);
}

const char *counters_role_name(enum counter_role role);

#endif
