#define _GNU_SOURCE
#include "tasks.h"
#include "procfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tasks_begin(struct tasks *tasks) {
    struct task_seen *spare = tasks->before;
    size_t capacity = tasks->capacity_before;
    tasks->before = tasks->seen;
    tasks->count_before = tasks->count;
    tasks->capacity_before = tasks->capacity;
    tasks->seen = spare;
    tasks->capacity = capacity;
    tasks->count = 0;
}

static int64_t read_wait(int pid, int thread) {
    char text[128];
    long long wait;
    if (procfs_read(text, sizeof(text), "%d/task/%d/schedstat", pid, thread) < 0)
        return -1;
    return sscanf(text, "%*u %lld", &wait) == 1 ? wait : -1;
}

static int read_thread(struct tasks *tasks, int pid, int thread) {
    char text[4096];
    /* Whether the thread has ended is asked last: what was not readable before then was hidden from us. */
    int64_t wait = read_wait(pid, thread);
    if (procfs_read(text, sizeof(text), "%d/task/%d/status", pid, thread) <= 0)
        return 0;
    if (tasks->count == tasks->capacity) {
        size_t capacity = tasks->capacity ? 2 * tasks->capacity : 64;
        struct task_seen *more = realloc(tasks->seen, capacity * sizeof(*more));
        if (!more)
            return -ENOMEM;
        tasks->seen = more;
        tasks->capacity = capacity;
    }
    struct task_seen *seen = &tasks->seen[tasks->count++];
    seen->thread = thread;
    seen->value[TASKS_WAIT] = wait;
    seen->value[TASKS_SWITCHES] = procfs_number(text, "voluntary_ctxt_switches:");
    seen->value[TASKS_PREEMPTIONS] = procfs_number(text, "nonvoluntary_ctxt_switches:");
    return 0;
}

int tasks_read(struct tasks *tasks, int pid) {
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    struct dirent *entry;
    int rc = 0;
    while (threads && !rc && (entry = readdir(threads))) {
        int thread = procfs_id(entry->d_name);
        if (thread)
            rc = read_thread(tasks, pid, thread);
    }
    if (threads)
        closedir(threads);
    return rc;
}

static int by_thread(const void *left, const void *right) {
    return ((const struct task_seen *)left)->thread - ((const struct task_seen *)right)->thread;
}

/* A number that came back with less than it had is another thread's. */
static int is_same(const struct task_seen *now, const struct task_seen *before) {
    return now->thread == before->thread && now->value[TASKS_SWITCHES] >= before->value[TASKS_SWITCHES] &&
           now->value[TASKS_PREEMPTIONS] >= before->value[TASKS_PREEMPTIONS];
}

void tasks_end(struct tasks *tasks, int64_t sums[TASKS_VALUES]) {
    if (tasks->count)
        qsort(tasks->seen, tasks->count, sizeof(*tasks->seen), by_thread);
    size_t now = 0;
    for (size_t i = 0; i < tasks->count_before; i++) {
        const struct task_seen *before = &tasks->before[i];
        while (now < tasks->count && tasks->seen[now].thread < before->thread)
            now++;
        if (now < tasks->count && is_same(&tasks->seen[now], before))
            continue;
        for (int k = 0; k < TASKS_VALUES; k++)
            tasks->ended[k] += before->value[k] > 0 ? before->value[k] : 0;
    }
    memcpy(sums, tasks->ended, sizeof(tasks->ended));
    for (int k = 0; k < TASKS_VALUES; k++)
        for (size_t i = 0; i < tasks->count && sums[k] >= 0; i++)
            sums[k] = tasks->seen[i].value[k] < 0 ? -1 : sums[k] + tasks->seen[i].value[k];
}

void tasks_free(struct tasks *tasks) {
    free(tasks->seen);
    free(tasks->before);
}
