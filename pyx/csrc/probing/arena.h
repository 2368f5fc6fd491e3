/* What the ends of a run share with the process that watches them. */
#ifndef KNEEPOINT_PROBING_ARENA_H
#define KNEEPOINT_PROBING_ARENA_H

#include "run.h"

#include <stdatomic.h>

enum { MESSAGE_ROOM = 200 };

/* Opens once `wanted` have arrived. */
struct gate {
    _Atomic int arrived, open;
};

struct group { /* the ends of one pair */
    _Atomic int stop;
    struct gate opened; /* end 0 has */
    char *shared;
};

struct end_state {
    _Atomic uint64_t progress; /* grows while it gets on */
    _Atomic int done;
    struct probe_identity identity;
    struct probing_record record;
};

struct arena {
    struct gate bound, ready;
    _Atomic int64_t released, finished;
    _Atomic int warm, measured; /* how many working ends have come so far */
    int workers;                /* how many there are */
    _Atomic int failed;         /* the first error of an end, positive */
    _Atomic int left;           /* ends that are not done; whoever waits for none is woken */
    char message[MESSAGE_ROOM];
    struct group group[PROBING_MOST_PAIRS];
    struct end_state end[];
};

static inline struct end_state *arena_end(struct arena *arena, int ends, int pair, int end) {
    return &arena->end[pair * ends + end];
}

/* What the process that watches knows. */
struct run {
    const struct probing_plan *plan;
    struct arena *arena;
    struct probe_form form;
    int total;
    int (*fd)[PROBE_FDS]; /* of each pair */
    size_t shared;
    int64_t patience;
    pid_t *child; /* 0: gone, and waited for */
    int children;
    pid_t group;
    char *message;
    size_t room;
};

/* Writes the line for the user; gives rc. */
int run_fail(struct run *run, int rc, const char *what);

/* Until all ends are gone, or have to be ended. 0, or the error of one. */
int probing_watch(struct run *run);

/* The whole life of one end, in its own process or thread. 0 or a negated errno, which is in the arena too.
 */
int probing_end(const struct probing_plan *plan, const struct probe_form *form, struct arena *arena, int pair,
                int end, const int fd[PROBE_FDS]);

#endif
