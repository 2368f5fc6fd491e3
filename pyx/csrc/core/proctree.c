#define _GNU_SOURCE
#include "proctree.h"
#include "clock.h"
#include "procfs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 4 };

struct parent {
    int pid, parent;
};

struct walk {
    struct proctree_process *found;
    size_t capacity, count;
    struct parent *parents; /* of every process of the machine; NULL: the kernel lists children */
    size_t parent_count;
};

/* A child can be met twice, when its thread's end hands it to another of the same process. */
static int add(struct walk *walk, int pid) {
    for (size_t i = 0; i < walk->count; i++)
        if (walk->found[i].pid == pid)
            return 0;
    if (walk->count == walk->capacity)
        return -ENOBUFS;
    walk->found[walk->count++] = (struct proctree_process){.pid = pid};
    return 0;
}

static int add_children_of_thread(struct walk *walk, int pid, int thread) {
    int fd = procfs_open("%d/task/%d/children", pid, thread);
    if (fd < 0)
        return 0;
    char text[4096];
    ssize_t got;
    int child = 0, rc = 0;
    while (!rc && (got = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < got && !rc; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                child = child * 10 + (text[i] - '0');
            } else if (child) {
                rc = add(walk, child);
                child = 0;
            }
        }
    close(fd);
    return rc;
}

/* Children belong to the thread that forked them. */
static int add_children(struct walk *walk, int pid) {
    int rc = 0;
    if (walk->parents) {
        for (size_t i = 0; i < walk->parent_count && !rc; i++)
            if (walk->parents[i].parent == pid)
                rc = add(walk, walk->parents[i].pid);
        return rc;
    }
    char path[32];
    struct stat task;
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    /* Its links are two, and one for each thread: asking costs less than listing the one that most have. */
    if (!stat(path, &task) && task.st_nlink == 3)
        return add_children_of_thread(walk, pid, pid);
    DIR *threads = opendir(path);
    struct dirent *entry;
    while (threads && !rc && (entry = readdir(threads))) {
        int thread = procfs_id(entry->d_name);
        if (thread)
            rc = add_children_of_thread(walk, pid, thread);
    }
    if (threads)
        closedir(threads);
    return rc;
}

static int read_parents(struct walk *walk) {
    size_t capacity = 0;
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes && (entry = readdir(processes))) {
        struct procfs_stat stat;
        int pid = procfs_id(entry->d_name);
        if (!pid || procfs_stat(pid, &stat))
            continue;
        if (walk->parent_count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            struct parent *more = realloc(walk->parents, capacity * sizeof(*more));
            if (!more) {
                closedir(processes);
                return -ENOMEM;
            }
            walk->parents = more;
        }
        walk->parents[walk->parent_count++] = (struct parent){pid, stat.parent};
    }
    if (processes)
        closedir(processes);
    return walk->parents ? 0 : -ESRCH;
}

static int read_process(struct proctree_process *process, int without) {
    struct procfs_stat stat;
    clockid_t clock;
    struct timespec own;
    if (procfs_stat(process->pid, &stat))
        return -ESRCH;
    process->cpu = stat.reaped;
    if (without)
        return 0;
    if (clock_getcpuclockid(process->pid, &clock) || clock_gettime(clock, &own))
        return -ESRCH;
    process->cpu += (int64_t)own.tv_sec * 1000000000 + own.tv_nsec;
    process->threads = stat.threads;
    return 0;
}

/* A process's children are listed before its stat is read, so that one that ends in between is in the stat.
 * The number of processes that were gone when their turn came, or a negated errno. */
static int walk_once(struct walk *walk, int root) {
    int gone = 0, rc = 0;
    walk->count = 0;
    add(walk, abs(root));
    for (size_t i = 0; i < walk->count; i++) {
        if (!rc)
            rc = add_children(walk, walk->found[i].pid);
        if (!read_process(&walk->found[i], i == 0 && root < 0))
            continue;
        if (i == 0)
            return -ESRCH;
        gone++;
        walk->found[i] = (struct proctree_process){.pid = walk->found[i].pid};
    }
    return rc ? rc : gone;
}

int proctree_walk(int root, int scan, struct proctree_process *found, size_t capacity, size_t *count) {
    struct walk walk = {.found = found, .capacity = capacity};
    int rc = 1;
    scan = scan || access("/proc/thread-self/children", F_OK);
    for (int i = 0; i < TRIES && rc > 0; i++) {
        free(walk.parents);
        walk.parents = NULL;
        walk.parent_count = 0;
        rc = scan ? read_parents(&walk) : 0;
        if (!rc)
            rc = walk_once(&walk, root);
    }
    free(walk.parents);
    *count = walk.count;
    return rc > 0 ? 0 : rc;
}

int proctree_list(int root, int *pids, size_t capacity, size_t *count) {
    struct proctree_process *found = malloc(PROCTREE_MAX * sizeof(*found));
    size_t all = 0;
    *count = 0;
    if (!found)
        return -ENOMEM;
    int rc = proctree_walk(root, 0, found, PROCTREE_MAX, &all);
    for (size_t i = 0; i < all; i++) {
        if (!found[i].threads)
            continue;
        if (*count == capacity) {
            rc = -ENOBUFS;
            break;
        }
        pids[(*count)++] = found[i].pid;
    }
    free(found);
    return rc;
}

int64_t proctree_cpu(int root) {
    struct proctree_process *found = malloc(PROCTREE_MAX * sizeof(*found));
    size_t count;
    int64_t sum = 0;
    if (!found || proctree_walk(root, 0, found, PROCTREE_MAX, &count))
        sum = -1;
    for (size_t i = 0; sum >= 0 && i < count; i++)
        sum += found[i].cpu;
    free(found);
    return sum;
}
