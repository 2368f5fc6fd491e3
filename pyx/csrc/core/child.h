/* A fork whose child does not outlive its maker. */
#ifndef KNEEPOINT_CHILD_H
#define KNEEPOINT_CHILD_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* As `make`, which is fork or does the same. The child is killed when the calling thread ends, also if that
 * was before the child could ask for it. */
static inline pid_t child_fork_by(pid_t (*make)(void)) {
    pid_t parent = getpid(), pid = make();
    if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
        _exit(1);
    return pid;
}

static inline pid_t child_fork(void) {
    return child_fork_by(fork);
}

#endif
