/* When requests arrive, planned ahead and never changed by what the server does. One thread.
 *
 * A rate is split over threads: a Poisson process into independent ones of equal rate, a constant one by
 * turns. */
#ifndef KNEEPOINT_SCHEDULE_H
#define KNEEPOINT_SCHEDULE_H

#include "../core/random.h"

struct schedule {
    struct random random;
    int poisson;
    double mean;  /* ns between two arrivals of this thread */
    double first; /* constant: ns from the origin to the first */
    double at;    /* Poisson: ns from the origin to the last one given */
    uint64_t given;
};

/* The part of thread `thread` of `threads` in a schedule of `rate` arrivals a second. */
static inline void schedule_init(struct schedule *schedule, int poisson, double rate, uint64_t seed,
                                 unsigned thread, unsigned threads) {
    *schedule =
        (struct schedule){.poisson = poisson, .mean = 1e9 / rate * threads, .first = 1e9 / rate * thread};
    /* Clients draw from the streams below 2^32. */
    random_seed(&schedule->random, seed, ((uint64_t)1 << 32) + thread);
}

/* The next arrival, ns after the origin. */
static inline int64_t schedule_next(struct schedule *schedule) {
    double n = (double)schedule->given++;
    if (!schedule->poisson)
        return (int64_t)(schedule->first + n * schedule->mean);
    schedule->at += schedule->mean * random_exponential(&schedule->random);
    return (int64_t)schedule->at;
}

#endif
