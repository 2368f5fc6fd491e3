/* Keeps watch over the ends of a run: which have ended, and how; which stand still. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "arena.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 20, LATE_MS = 100, LEAVE_MS = 1 };
enum { OPENING = 5 };     /* times the patience: what a probe makes and touches first may be much */
#define GRACE 300000000LL /* ns in which the ends must end after one of them has failed */

int run_fail(struct run *run, int rc, const char *what) {
    snprintf(run->message, run->room, "%s: %s", what, strerror(-rc));
    return rc;
}

/* Whether a child's ends have done all that they had to. */
static int done(const struct run *run, int child) {
    int after = run->plan->processes ? child + 1 : run->total;
    for (int i = child; i < after; i++)
        if (!atomic_load(&run->arena->end[i].done))
            return 0;
    return 1;
}

/* 0 where a child ended as it should. */
static int judge(struct run *run, int child, int status) {
    char who[64] = "the process of the ends";
    if (run->plan->processes)
        snprintf(who, sizeof(who), "end %d of pair %d", child % run->form.ends, child / run->form.ends);
    if (WIFSIGNALED(status))
        snprintf(run->message, run->room, "%s was killed by signal %d", who, WTERMSIG(status));
    else if (!done(run, child))
        snprintf(run->message, run->room, "%s ended by itself with status %d", who, WEXITSTATUS(status));
    else
        return 0;
    return -ECHILD;
}

/* Waits for those that have ended. 0, or the error of the first that should not have. */
static int reap(struct run *run) {
    int status, rc = 0;
    for (pid_t pid; (pid = waitpid(-run->group, &status, WNOHANG)) > 0;) {
        for (int i = 0; i < run->total; i++) {
            if (run->child[i] != pid)
                continue;
            run->child[i] = 0;
            run->children--;
            rc = rc ? rc : judge(run, i, status);
        }
    }
    return rc;
}

struct watch {
    uint64_t *progress; /* of each working end when it was last seen to get on */
    int64_t *moved;
    uint64_t all; /* of all of them together, with those that are done and those that are gone */
    int64_t all_moved;
};

static int stuck(struct run *run, int i) {
    if (i < run->total)
        snprintf(run->message, run->room, "end %d of pair %d does not leave after its work",
                 i % run->form.ends, i / run->form.ends);
    else
        snprintf(run->message, run->room, "the ends do not leave after their work");
    return -ETIMEDOUT;
}

static int still(struct run *run, int i) {
    int pair = i / run->form.ends, end = i % run->form.ends;
    double seconds = (double)run->patience / 1e9;
    if (run->form.alike && run->form.ends > 1)
        snprintf(
            run->message, run->room,
            "end %d of pair %d has stood still for %.1f s: it is stopped, or the others leave it no turn",
            end, pair, seconds);
    else
        snprintf(run->message, run->room,
                 "pair %d has stood still for %.1f s: what its ends send each other was lost, or one of them "
                 "is stopped or starved",
                 pair, seconds);
    return -ETIMEDOUT;
}

static int unbegun(struct run *run) {
    snprintf(run->message, run->room,
             "the ends have not begun after %.1f s: one of them is stopped, or has too much to make first",
             (double)(OPENING * run->patience) / 1e9);
    return -ETIMEDOUT;
}

/* A working end that has done nothing for too long; or one, of whatever kind, that does not leave. */
static int stalled(struct run *run, struct watch *watch, int64_t now) {
    int begun = atomic_load(&run->arena->ready.open);
    uint64_t all = (uint64_t)(run->total - run->children);
    int there = run->total; /* the first that is not done */
    for (int i = run->total - 1; i >= 0; i--) {
        struct end_state *state = &run->arena->end[i];
        uint64_t progress = atomic_load(&state->progress);
        int has_done = atomic_load(&state->done), works = run->form.alike || i % run->form.ends == 0;
        all += progress + (uint64_t)has_done;
        there = has_done ? there : i;
        if (!begun || has_done || !works || progress != watch->progress[i]) {
            watch->progress[i] = progress;
            watch->moved[i] = now;
        } else if (now - watch->moved[i] > run->patience) {
            return still(run, i);
        }
    }
    if (all != watch->all) {
        watch->all = all;
        watch->all_moved = now;
    }
    if (now - watch->all_moved <= run->patience * (begun ? 1 : OPENING))
        return 0;
    return begun ? stuck(run, there) : unbegun(run);
}

/* A look that comes late says that the machine stood still, and the ends with it: no look counts for more
 * than LATE_MS, so that a watcher which is always late still loses its patience after a dozen looks. */
static void excuse(struct run *run, struct watch *watch, int64_t since) {
    int64_t late = since - LATE_MS * 1000000LL;
    for (int i = 0; late > 0 && i < run->total; i++)
        watch->moved[i] += late;
    watch->all_moved += late > 0 ? late : 0;
}

static int closed(int alive) {
    struct pollfd ready = {alive, 0, 0};
    return alive >= 0 && poll(&ready, 1, 0) > 0;
}

/* Until it is time to look again, or all ends are done and only have to leave. */
static void nap(struct run *run) {
    int left = atomic_load(&run->arena->left);
    struct timespec most = clock_spec(LOOK_MS * 1000000LL);
    if (left)
        syscall(SYS_futex, &run->arena->left, FUTEX_WAIT, left, &most, NULL, 0);
    else
        poll(NULL, 0, LEAVE_MS);
}

static int keep_watch(struct run *run, struct watch *watch) {
    int64_t failed_at = 0, looked = clock_now();
    for (;;) {
        int rc = reap(run);
        if (rc || !run->children)
            return rc;
        int64_t now = clock_now();
        excuse(run, watch, now - looked);
        looked = now;
        if (closed(run->plan->alive)) {
            snprintf(run->message, run->room, "stopped");
            return -ECANCELED;
        }
        if (atomic_load(&run->arena->failed)) {
            failed_at = failed_at ? failed_at : now;
            if (now - failed_at > GRACE)
                return 0; /* the arena says why */
        } else if ((rc = stalled(run, watch, now))) {
            return rc;
        }
        nap(run);
    }
}

int probing_watch(struct run *run) {
    struct watch watch = {calloc((unsigned)run->total, sizeof(uint64_t)),
                          malloc((unsigned)run->total * sizeof(int64_t)), 0, clock_now()};
    int rc = watch.progress && watch.moved ? 0 : run_fail(run, -ENOMEM, "memory");
    for (int i = 0; !rc && i < run->total; i++)
        watch.moved[i] = clock_now();
    rc = rc ? rc : keep_watch(run, &watch);
    free(watch.progress);
    free(watch.moved);
    return rc;
}
