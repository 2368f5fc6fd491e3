#define _GNU_SOURCE
#include "run.h"
#include "../core/child.h"
#include "../core/clock.h"
#include "arena.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10, CLOCK_READINGS = 2000, LOOP_TURNS = 100000 };

/* ---- before the ends ---- */

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static void *map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int make_arena(struct run *run, struct probing_result *result) {
    const struct probing_plan *plan = run->plan;
    size_t states = round_up(sizeof(struct arena) + (size_t)run->total * sizeof(struct end_state), 64);
    result->arena_size = states + (size_t)run->total * plan->capacity * sizeof(double);
    result->arena = run->arena = map(result->arena_size);
    if (!run->arena)
        return run_fail(run, -ENOMEM, "shared memory for the results");
    double *sample = (double *)((char *)run->arena + states);
    for (int i = 0; i < run->total; i++)
        run->arena->end[i].record.sample = sample + (size_t)i * plan->capacity;
    run->arena->left = run->total;
    run->arena->workers = run->form.alike ? run->total : plan->pairs;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    run->shared = round_up(run->form.shared, page);
    for (int pair = 0; pair < plan->pairs && run->shared; pair++)
        if (!(run->arena->group[pair].shared = map(run->shared)))
            return run_fail(run, -ENOMEM, "shared memory for a pair");
    return 0;
}

/* Hundreds of pairs need thousands of descriptors; the usual limit is a default that anybody may raise. */
static void allow_descriptors(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static int prepare(struct run *run) {
    run->fd = malloc((size_t)run->plan->pairs * sizeof(*run->fd));
    run->child = calloc((size_t)run->total, sizeof(pid_t));
    if (!run->fd || !run->child)
        return run_fail(run, -ENOMEM, "memory");
    for (int pair = 0; pair < run->plan->pairs; pair++)
        for (int i = 0; i < PROBE_FDS; i++)
            run->fd[pair][i] = -1;
    for (int pair = 0; pair < run->plan->pairs && run->plan->ops->prepare; pair++) {
        int rc = run->plan->ops->prepare(run->plan->config, run->plan->size, run->fd[pair]);
        if (rc == -EMFILE)
            return run_fail(run, rc,
                            "cannot make what the ends share (raise the limit by ulimit -n, or ask for "
                            "fewer pairs)");
        if (rc)
            return run_fail(run, rc, "cannot make what the ends share");
    }
    return 0;
}

/* ---- the ends ---- */

struct thread_end {
    const struct run *run;
    pthread_t thread;
    int pair, end;
};

static void *thread_main(void *argument) {
    const struct thread_end *at = argument;
    const struct run *run = at->run;
    probing_end(run->plan, &run->form, run->arena, at->pair, at->end, run->fd[at->pair]);
    return NULL;
}

/* The child whose threads are the ends. */
static int run_threads(const struct run *run) {
    struct thread_end *threads = calloc((size_t)run->total, sizeof(*threads));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int started = 0, rc = threads ? 0 : ENOMEM;
    for (; !rc && started < run->total; started += !rc) {
        threads[started] = (struct thread_end){
            .run = run, .pair = started / run->form.ends, .end = started % run->form.ends};
        rc = pthread_create(&threads[started].thread, &attributes, thread_main, &threads[started]);
    }
    if (rc) { /* those that were started wait for the others: the watcher ends them with this process */
        snprintf(run->arena->message, MESSAGE_ROOM,
                 "cannot start thread %d of %d (raise the limit by ulimit -u, or ask for fewer pairs): %s",
                 started + 1, run->total, strerror(rc));
        atomic_store(&run->arena->failed, rc);
        pause();
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i].thread, NULL);
    free(threads);
    return 0;
}

static int start_child(struct run *run, int index) {
    pid_t pid = child_fork();
    if (pid < 0)
        return run_fail(run, -errno,
                        "cannot start a process (raise the limit by ulimit -u, or ask for fewer pairs)");
    if (pid) {
        run->group = run->group ? run->group : pid;
        setpgid(pid, run->group);
        run->child[index] = pid;
        run->children++;
        return 0;
    }
    setpgid(0, run->group);
    int pair = index / run->form.ends;
    _exit(run->plan->processes
              ? !!probing_end(run->plan, &run->form, run->arena, pair, index % run->form.ends, run->fd[pair])
              : run_threads(run));
}

static int start(struct run *run) {
    int wanted = run->plan->processes ? run->total : 1, rc = 0;
    for (int i = 0; i < wanted && !rc; i++)
        rc = start_child(run, i);
    return rc;
}

static void end_all(struct run *run) {
    if (run->group)
        kill(-run->group, SIGKILL);
    for (int i = 0; run->child && i < run->total; i++)
        if (run->child[i])
            waitpid(run->child[i], NULL, 0);
    for (int pair = 0; run->fd && pair < run->plan->pairs; pair++)
        for (int i = 0; i < PROBE_FDS; i++)
            if (run->fd[pair][i] >= 0)
                close(run->fd[pair][i]);
    for (int pair = 0; run->arena && pair < run->plan->pairs; pair++)
        if (run->arena->group[pair].shared)
            munmap(run->arena->group[pair].shared, run->shared);
    free(run->fd);
    free(run->child);
}

/* ---- the instrument's own costs ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void read_overheads(struct probing_result *result) {
    double gap[CLOCK_READINGS], loop[9];
    for (int i = 0; i < CLOCK_READINGS; i++) {
        int64_t a = clock_now();
        gap[i] = (double)(clock_now() - a);
    }
    for (int i = 0; i < 9; i++) {
        int64_t a = clock_now();
        for (uint64_t turn = 0; turn < LOOP_TURNS; turn++)
            __asm__ volatile("" ::: "memory");
        loop[i] = (double)(clock_now() - a) / LOOP_TURNS;
    }
    qsort(gap, CLOCK_READINGS, sizeof(double), by_size);
    qsort(loop, 9, sizeof(double), by_size);
    result->clock_ns = gap[CLOCK_READINGS / 2];
    result->loop_ns = loop[4];
}

/* ---- */

static struct probe_form form_of(const struct probing_plan *plan) {
    struct probe_form form = plan->ops->form;
    if (plan->ops->shape)
        plan->ops->shape(plan->config, plan->size, &form);
    return form;
}

static int refuse(struct run *run, const char *why) {
    snprintf(run->message, run->room, "%s", why);
    return -EINVAL;
}

static int check(struct run *run) {
    const struct probing_plan *plan = run->plan;
    if (!(plan->ops->kinds & (plan->processes ? PROBE_PROCESSES : PROBE_THREADS)))
        return refuse(run, plan->processes ? "its ends must be threads" : "its ends must be processes");
    if (plan->pairs > PROBING_MOST_PAIRS || run->total > PROBING_MOST_ENDS ||
        run->form.ends > PROBING_MOST_CPUS)
        return refuse(run, "more than 512 pairs, 1024 ends, or 64 ends of one pair");
    cpu_set_t here;
    if (sched_getaffinity(0, sizeof(here), &here))
        return run_fail(run, -errno, "cannot read which CPUs there are");
    int distinct = 0;
    for (int i = 0; i < plan->cpus; i++) {
        if (!CPU_ISSET((size_t)plan->cpu[i], &here)) {
            snprintf(run->message, run->room, "CPU %d is not one that this process may use", plan->cpu[i]);
            return -EINVAL;
        }
        distinct++;
        for (int k = 0; k < i; k++)
            if (plan->cpu[k] == plan->cpu[i]) {
                distinct--;
                break;
            }
    }
    run->patience = PROBING_PATIENCE + (int64_t)PROBING_SLICE * run->total / distinct;
    if (run->form.spins && run->total > distinct) {
        snprintf(run->message, run->room,
                 "its ends poll, so that each needs a CPU of its own: %d ends, %d CPUs", run->total,
                 distinct);
        return -EINVAL;
    }
    return 0;
}

static int carry_out(struct run *run, struct probing_result *result) {
    int rc = make_arena(run, result);
    rc = rc ? rc : prepare(run);
    rc = rc ? rc : start(run);
    rc = rc ? rc : probing_watch(run);
    int failed = run->arena ? atomic_load(&run->arena->failed) : 0;
    if (failed && rc != -ECANCELED && rc != -ECHILD) {
        snprintf(run->message, run->room, "%s", run->arena->message);
        rc = -failed;
    }
    end_all(run);
    return rc;
}

int probing_run(const struct probing_plan *wanted, struct probing_result *result, char *message,
                size_t room) {
    struct probing_plan plan = *wanted;
    struct run run = {.plan = &plan, .message = message, .room = room};
    *result = (struct probing_result){0};
    *message = 0;
    int rc = 0;
    allow_descriptors();
    if (plan.ops->check)
        rc = plan.ops->check(plan.config, plan.pairs, plan.processes, &plan.size, message, room);
    run.form = form_of(&plan);
    plan.size = run.form.sized ? plan.size : 0;
    run.total = run.form.ends * plan.pairs;
    rc = rc ? rc : check(&run);
    if (rc)
        return rc;
    read_overheads(result);
    rc = carry_out(&run, result);
    if (rc) {
        probing_free(result);
        return rc;
    }
    result->form = run.form;
    result->size = plan.size;
    result->released = atomic_load(&run.arena->released);
    result->finished = atomic_load(&run.arena->finished);
    result->record = malloc((size_t)run.total * sizeof(*result->record));
    if (!result->record) {
        probing_free(result);
        return run_fail(&run, -ENOMEM, "memory");
    }
    for (int i = 0; i < run.total; i++)
        result->record[i] = run.arena->end[i].record;
    return 0;
}

void probing_free(struct probing_result *result) {
    free(result->record);
    if (result->arena)
        munmap(result->arena, result->arena_size);
    *result = (struct probing_result){0};
}
