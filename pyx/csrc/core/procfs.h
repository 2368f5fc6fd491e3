/* Small files below /proc. Whatever they are about may end at any moment, and a name in them may hold
 * anything, so every function copes with both. */
#ifndef KNEEPOINT_PROCFS_H
#define KNEEPOINT_PROCFS_H

#include <stddef.h>
#include <stdint.h>

/* What /proc/PID/stat says of a process. */
struct procfs_stat {
    char state;
    int parent;
    int threads;    /* 0: ended, waiting to be reaped */
    int64_t reaped; /* ns of processor time of the children that it has waited for, and of theirs; in ticks */
};

/* Opens the file whose path below /proc is made by `format`; the descriptor, or a negated errno. */
int procfs_open(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reads a file whole, or as much as fits, into text, and ends it with a 0. Its length, or a negated errno. */
int procfs_read(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* 0, -ESRCH when the process is gone, or -EPROTO. */
int procfs_stat(int pid, struct procfs_stat *stat);

/* The number behind `name`, which starts a line other than the first; -1 when there is none. */
int64_t procfs_number(const char *text, const char *name);

/* The number that is the whole name of a folder, such as a process's; 0 when it is something else. */
int procfs_id(const char *name);

#endif
