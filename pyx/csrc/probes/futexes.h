/* The system calls by which glibc's locks and semaphores sleep and wake, made by one end alone. */
#ifndef KNEEPOINT_PROBES_FUTEXES_H
#define KNEEPOINT_PROBES_FUTEXES_H

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Wakes whoever sleeps on a word on which nobody does, and asks to sleep while it has a value that it has
 * not: all that the two calls do but for the waking and the sleeping. 0 or a negated errno. */
static inline int futexes_nobody(_Atomic uint32_t *word, int processes) {
    int private = processes ? 0 : FUTEX_PRIVATE_FLAG;
    if (syscall(SYS_futex, word, FUTEX_WAKE | private, 1, NULL, NULL, 0) < 0)
        return -errno;
    if (!syscall(SYS_futex, word, FUTEX_WAIT | private, atomic_load(word) + 1, NULL, NULL, 0))
        return -EPROTO;
    return errno == EAGAIN ? 0 : -errno;
}

#endif
