#define _GNU_SOURCE
#include "sampler.h"
#include "clock.h"
#include "procfs.h"
#include "proctree.h"
#include "tasks.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARE = 100 }; /* a group takes at most one part in so many of a processor */

struct sampler {
    int root;
    int64_t interval;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int stopping; /* under lock */
    /* from here on: the thread's while it runs */
    struct proctree_process *found;
    size_t count;
    struct tasks tasks;
    int64_t due[SAMPLER_GROUPS]; /* clock_now from which each group may be read again */
    int64_t cpu;                 /* of the last row */
    struct sampler_row *rows;
    size_t row_count, row_capacity;
};

/* Newer kernels give the number as the folder's size; older ones make us list it. */
static int64_t count_descriptors(int pid) {
    char path[32];
    struct stat folder;
    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    if (!stat(path, &folder) && folder.st_size > 0)
        return folder.st_size;
    DIR *open = opendir(path);
    if (!open)
        return errno == ENOENT || errno == ESRCH ? 0 : -1;
    int64_t count = 0;
    for (struct dirent *entry; (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static int64_t added(int64_t sum, int64_t value) {
    return sum < 0 || value < 0 ? -1 : sum + value;
}

static void read_descriptors(struct sampler *sampler, struct sampler_row *row) {
    int64_t *sum = &row->value[SAMPLER_descriptors];
    *sum = 0;
    for (size_t i = 0; i < sampler->count; i++)
        if (sampler->found[i].threads)
            *sum = added(*sum, count_descriptors(sampler->found[i].pid));
}

static void read_memory(struct sampler *sampler, struct sampler_row *row) {
    int64_t pss = 0, rss = 0;
    for (size_t i = 0; i < sampler->count; i++) {
        char text[2048];
        long long pages;
        int pid = sampler->found[i].pid;
        if (!sampler->found[i].threads)
            continue;
        int rc = procfs_read(text, sizeof(text), "%d/smaps_rollup", pid);
        if (rc == -ESRCH || rc == 0)
            continue; /* it ended since */
        int64_t resident = rc < 0 ? -1 : procfs_number(text, "Rss:");
        int64_t proportional = rc < 0 ? -1 : procfs_number(text, "Pss:");
        pss = added(pss, proportional < 0 ? -1 : proportional * 1024);
        if (resident >= 0)
            rss = added(rss, resident * 1024);
        else if (procfs_read(text, sizeof(text), "%d/statm", pid) > 0)
            rss = added(rss, sscanf(text, "%*u %lld", &pages) == 1 ? pages * sysconf(_SC_PAGESIZE) : -1);
    }
    row->value[SAMPLER_pss] = pss;
    row->value[SAMPLER_rss] = rss;
}

static void read_tasks(struct sampler *sampler, struct sampler_row *row) {
    int64_t sums[TASKS_VALUES];
    int rc = 0;
    tasks_begin(&sampler->tasks);
    for (size_t i = 0; i < sampler->count && !rc; i++)
        if (sampler->found[i].threads)
            rc = tasks_read(&sampler->tasks, sampler->found[i].pid);
    tasks_end(&sampler->tasks, sums);
    if (rc)
        return;
    row->value[SAMPLER_wait] = sums[TASKS_WAIT];
    row->value[SAMPLER_switches] = sums[TASKS_SWITCHES];
    row->value[SAMPLER_preemptions] = sums[TASKS_PREEMPTIONS];
}

static int read_tree(struct sampler *sampler, struct sampler_row *row) {
    int rc = proctree_walk(sampler->root, 0, sampler->found, PROCTREE_MAX, &sampler->count);
    if (rc && rc != -ENOBUFS)
        return rc;
    row->value[SAMPLER_time] = clock_now();
    if (rc)
        return 0; /* a tree too large to count */
    int64_t processes = 0, threads = 0, cpu = 0;
    for (size_t i = 0; i < sampler->count; i++) {
        processes += sampler->found[i].threads > 0;
        threads += sampler->found[i].threads;
        cpu += sampler->found[i].cpu;
    }
    row->value[SAMPLER_processes] = processes;
    row->value[SAMPLER_threads] = threads;
    /* The time of what is reaped comes in ticks, rounded down, and had been finer before. */
    sampler->cpu = cpu > sampler->cpu ? cpu : sampler->cpu;
    row->value[SAMPLER_cpu] = sampler->cpu;
    return 0;
}

static int next_row(struct sampler *sampler, struct sampler_row **row) {
    if (sampler->row_count == sampler->row_capacity) {
        size_t capacity = sampler->row_capacity ? 2 * sampler->row_capacity : 64;
        struct sampler_row *more = realloc(sampler->rows, capacity * sizeof(*more));
        if (!more)
            return -ENOMEM;
        sampler->rows = more;
        sampler->row_capacity = capacity;
    }
    *row = &sampler->rows[sampler->row_count];
    for (int i = 0; i < SAMPLER_COLUMNS; i++)
        (*row)->value[i] = -1;
    return 0;
}

/* Adds one row. `whole`: of all groups, whether they are due or not. A row of a tree that is gone is none. */
static int sample(struct sampler *sampler, int whole) {
    static void (*const read_group[SAMPLER_GROUPS])(struct sampler *, struct sampler_row *) = {
        [SAMPLER_DESCRIPTORS] = read_descriptors,
        [SAMPLER_TASKS] = read_tasks,
        [SAMPLER_MEMORY] = read_memory,
    };
    struct sampler_row *row;
    int64_t start = clock_now(), used = clock_thread();
    if (!whole && start < sampler->due[SAMPLER_TREE])
        return 0;
    int rc = next_row(sampler, &row);
    if (!rc)
        rc = read_tree(sampler, row);
    if (rc)
        return rc;
    int large = row->value[SAMPLER_processes] < 0;
    for (int group = 0; group < SAMPLER_GROUPS; group++) {
        if (group != SAMPLER_TREE && !large && (whole || start >= sampler->due[group]))
            read_group[group](sampler, row);
        int64_t now = clock_thread();
        if (now > used && (whole || start >= sampler->due[group]))
            sampler->due[group] = start + SHARE * (now - used);
        used = now;
    }
    sampler->row_count++;
    return 0;
}

static void *run(void *argument) {
    struct sampler *sampler = argument;
    int64_t next = clock_now() + sampler->interval;
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->stopping) {
        struct timespec until = clock_spec(next);
        if (pthread_cond_timedwait(&sampler->wake, &sampler->lock, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&sampler->lock);
        sample(sampler, 0);
        /* A tick that passed while it was read is left out, not made up for. */
        int64_t late = clock_now() - next;
        next += (late / sampler->interval + 1) * sampler->interval;
        pthread_mutex_lock(&sampler->lock);
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

int sampler_start(int root, int64_t interval_ns, struct sampler **out) {
    pthread_condattr_t monotonic;
    struct sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return -ENOMEM;
    sampler->root = root;
    sampler->interval = interval_ns;
    sampler->found = malloc(PROCTREE_MAX * sizeof(*sampler->found));
    pthread_mutex_init(&sampler->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int rc = sampler->found ? sample(sampler, 1) : -ENOMEM;
    if (!rc)
        rc = -pthread_create(&sampler->thread, NULL, run, sampler);
    if (rc)
        sampler_destroy(sampler);
    else
        *out = sampler;
    return rc;
}

void sampler_stop(struct sampler *sampler, const struct sampler_row **rows, size_t *count) {
    pthread_mutex_lock(&sampler->lock);
    sampler->stopping = 1;
    pthread_cond_signal(&sampler->wake);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
    sample(sampler, 1);
    *rows = sampler->rows;
    *count = sampler->row_count;
}

void sampler_destroy(struct sampler *sampler) {
    pthread_cond_destroy(&sampler->wake);
    pthread_mutex_destroy(&sampler->lock);
    tasks_free(&sampler->tasks);
    free(sampler->found);
    free(sampler->rows);
    free(sampler);
}
