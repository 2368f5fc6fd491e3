/* A process and all that descends from it, found again at each call.
 *
 * The root is a process's number. A negative one, as in kill(2), is that process's descendants without
 * itself, for a root that only keeps the others (kneepoint-keeper, to which their orphans go).
 *
 * Processes begin and end while the tree is read. A walk that met one's end is made again, a few times; what
 * it can still miss is a process that began during the last one. Processor time is never counted twice: a
 * child's is in its own clock until its parent has waited for it, and in the parent's stat after that, and
 * the parent is read first. The time of children whose parent ignores SIGCHLD is lost with them; nobody keeps
 * it. */
#ifndef KNEEPOINT_PROCTREE_H
#define KNEEPOINT_PROCTREE_H

#include <stddef.h>
#include <stdint.h>

enum { PROCTREE_MAX = 8192 };

struct proctree_process {
    int pid;
    int threads; /* 0: it runs no more, or it is a negative root, and counts for nothing but `cpu` */
    int64_t cpu; /* ns of its own, and of the children that it has waited for (these to 10 ms) */
};

/* The tree, parents before their children. `scan` finds them by every process's parent, as is done anyway
 * where the kernel does not list children. 0, -ESRCH when the root is gone, -ENOMEM, -ENOBUFS when there are
 * more than `capacity` (at least 1): the first ones are given. */
int proctree_walk(int root, int scan, struct proctree_process *found, size_t capacity, size_t *count);

/* The numbers of those that run; returns like proctree_walk. */
int proctree_list(int root, int *pids, size_t capacity, size_t *count);

/* ns of processor time of the tree and of what it has reaped; -1 when the root is gone. */
int64_t proctree_cpu(int root);

#endif
