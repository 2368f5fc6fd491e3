/* Integer nanoseconds. */
#ifndef KNEEPOINT_CLOCK_H
#define KNEEPOINT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Time since an arbitrary start, never set back. */
static inline int64_t clock_now(void) {
    return clock_read(CLOCK_MONOTONIC);
}

/* Processor time that the calling thread has used. A system call, unlike clock_now. */
static inline int64_t clock_thread(void) {
    return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

static inline struct timespec clock_spec(int64_t ns) {
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

#endif
