/* One run of a program: the state of its threads, CPUs and fifos, and what it records.
 *
 * A run belongs to one thread of the caller; runs of the same program may go on at the same time. The
 * modules: program (what does not change), events (the order of what happens), vm (a thread's program until
 * it waits), cpu (a run queue), machine (who runs where), fifo, draw (random numbers), and this one (the loop
 * over the events). */
#ifndef KNEEPOINT_SIM_SIM_H
#define KNEEPOINT_SIM_SIM_H

#include "draw.h"
#include "events.h"
#include "fifo.h"
#include "program.h"
#include "runqueue.h"

enum thread_state {
    THREAD_NEW,
    THREAD_SLEEPING,  /* until somebody wakes it */
    THREAD_PAUSED,    /* until its timer */
    THREAD_FOLLOWING, /* until the thread that it follows gets a CPU */
    THREAD_QUEUED,
    THREAD_RUNNING, /* an agent that is not asleep always is */
    THREAD_ENDED
};

struct thread {
    double need; /* processor time until what it does ends, s */
    double vruntime, deadline, lag, last_ran;
    double rest; /* for how long its CPU had been idle when it last left it, s */
    double used; /* processor time so far, s */
    struct cpu *cpu;
    struct thread *followers, *next_follower;
    uint64_t allowed, turn;
    int64_t slept, switched;
    uint32_t number, entry;
    uint8_t state;
    bool agent, spinning, wake_pending, owing, ending;
};

struct cpu {
    struct thread *current;
    struct runqueue queue; /* who could run here, by deadline */
    struct runqueue owing; /* who sleeps but has had more than its share, by virtual time */
    double sum, base;      /* of the virtual times in both, less the base each */
    double started, balanced, virtual, idle_since;
    double rested; /* for how long it has been idle so far, the present rest left out, s */
    uint32_t number, changes;
    bool ticking, resting;
};

enum price {
    WAKE_WAKER,
    WAKE_SLEEPER,
    WAKE_LATENCY,
    WAKE_SOCKET,
    WAKE_FUTEX,
    SWITCH,
    BLOCK,
    HALTED_LATENCY,
    COOLING_WAKER,
    COOLING_SLEEPER,
    COOLING_LATENCY,
    HALTS,
    WAKE_REMOTE,
    REMOTE,
    CONTACT,
    COOLS,
    COLD_THREAD,
    COLD_CONNECTION,
    PRICE_COUNT
};

/* Why a run ended with an error. */
#define FAILURE_LIST(FAILURE)                                                                                \
    FAILURE(MEMORY, "there is not enough memory")                                                            \
    FAILURE(NONE, "an object is None")                                                                       \
    FAILURE(INDEX, "an index is out of range")                                                               \
    FAILURE(EMPTY, "a fifo is empty")                                                                        \
    FAILURE(FULL, "a fifo holds more than a million items")                                                  \
    FAILURE(REPLIES, "more than 100,000,000 replies came: ask for fewer")                                    \
    FAILURE(CALLS, "more than a million calls wait for their moment")                                        \
    FAILURE(EVENTS, "more events came than can be put in order")                                             \
    FAILURE(STUCK, "no time passes: a loop never waits")                                                     \
    FAILURE(COST, "a cost is not known")                                                                     \
    FAILURE(ZERO, "a division by zero")                                                                      \
    FAILURE(BEYOND, "a whole number needs more than 64 bits")                                                \
    FAILURE(SECONDS, "a time is negative or not a number")                                                   \
    FAILURE(KIND, "a distribution is unknown")                                                               \
    FAILURE(WAITS, "a function that is called at a moment must not wait")                                    \
    FAILURE(RETURN, "a thread must end with END, a function with RET")                                       \
    FAILURE(STATED, "the program says that it failed")

enum failure {
    FAILURE_NOT,
#define FAILURE_ENUM(name, text) FAILURE_##name,
    FAILURE_LIST(FAILURE_ENUM)
#undef FAILURE_ENUM
};

/* A function that waits for its moment; or a free place, with the number of the next one. */
struct call {
    uint32_t function, next_free;
};

/* A client's reply: time since it was due, and since it was sent, s. */
struct reply {
    double response, service;
    int64_t operation;
};

/* Sums since the beginning of the run. */
struct tally {
    double time, in_system;
    int64_t events;
    double *used; /* of each thread, s */
    double *counters;
    int64_t *slept, *switched; /* of each thread */
};

struct sim {
    struct events events;
    const struct program *program;
    const struct draw_table *draws;
    const double *prices, *costs;
    union word *frames, *store;
    struct fifo *fifos;
    double *counters;
    struct thread *threads;
    struct cpu *cpus;
    struct random random;
    uint32_t *order; /* samples: those before the position are drawn already */
    uint32_t position;
    int64_t patience; /* jumps and events until time must have passed */
    double lag_limit;
    double used; /* processor time of all threads so far, s */
    double use, accounted,
        looked;           /* share of the CPUs in use; what had been used when it was found, and when */
    uint64_t turns, idle; /* bit k of idle: nobody runs on CPU k or could */
    uint32_t queued;      /* in all run queues */
    bool bound;           /* some thread may not use all CPUs */

    struct call *calls;
    union word *call_words; /* arguments, call_width for each call */
    uint32_t call_capacity, free_call, call_width;

    int64_t level; /* requests in the system */
    double level_since, in_system;
    int64_t handled;         /* events */
    int64_t seen, next_mark; /* replies so far; with which the window begins, then ends */
    int64_t asked;           /* replies from the beginning of the run to the end of the window */
    double span, until;
    struct tally begin, end; /* of the window */
    bool begun, finished;
    struct reply *replies; /* in the window */
    size_t kept, capacity;

    enum failure failure;
    uint32_t failed_at, message;
};

/* What a run is to do. The arrays must live as long as the run. */
struct sim_settings {
    const double *prices; /* of enum price */
    const double *costs;
    const int64_t
        *first; /* of each thread that needs a CPU: on which of its CPUs it begins, round and round */
    uint64_t seed;
    int64_t warm, replies;
    double span; /* simulated seconds of the window at most */
};

/* 0 or −ENOMEM. Free it with sim_destroy in either case. */
int sim_create(struct sim *sim, const struct program *program, const struct draw_table *draws,
               const struct sim_settings *settings);
void sim_destroy(struct sim *sim);

/* Simulates for about so many seconds of wall clock. 1: goes on; 0: has ended, or failed. */
int sim_advance(struct sim *sim, double seconds);

/* Begins the window now, where it has not begun; closes it, where it has not been closed. */
void sim_begin(struct sim *sim);
void sim_close(struct sim *sim);

const char *sim_failure(enum failure failure);

/* Called by the other modules. */
void sim_fail(struct sim *sim, enum failure failure, uint32_t at);
void sim_entered(struct sim *sim);
enum failure sim_completed(struct sim *sim, int64_t operation, double response, double service);
/* A free place for a call, or −errno. */
int64_t sim_new_call(struct sim *sim);

#endif
