/* kneepoint-keeper ALIVE PAGE GRACE COMMAND [WORD ...]
 *
 * Runs somebody's command and answers for its end: when the pipe ALIVE closes, its starter ends, or a signal
 * asks for it, the command's main process gets SIGTERM, what it leaves behind SIGTERM too, and after GRACE
 * seconds all that is left is stopped, so that nothing can fork away, and killed, until nothing is left.
 * Nothing escapes by becoming a daemon: orphans of the command become children of this process
 * (PR_SET_CHILD_SUBREAPER). Should this process itself be killed, the main process is killed with it.
 *
 * Prints "running PID" when the command has been executed. What the command writes is read at once and its
 * end kept in PAGE, shared memory, which also tells how the main process ended. Ends when nothing of the
 * command runs any more, with the main process's status, or 128 + the signal that killed it. Before
 * "running", 2: the command cannot be run, or wrong arguments; 1: the system refused something. */
#define _GNU_SOURCE
#include "core/clock.h"
#include "core/proctree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RING = 16384, PIPE = 1 << 20, BURST = 64, STOP_ROUNDS = 16 };
enum { READ_PAUSE = 10000000, KILL_PAUSE = 10000000 }; /* ns */

/* Read by pyx/keeper.py: the same layout there. */
struct page {
    _Atomic uint64_t written; /* bytes so far; the last RING of them are in `ring`, byte i at i % RING */
    _Atomic int32_t ended;    /* 1: the main process has ended, as `status` says */
    int32_t status;           /* as waitpid gives it */
    char ring[RING];
};

struct keeper {
    struct page *page;
    int signals, alive, starter, output; /* descriptors; -1: none */
    int64_t grace;                       /* ns */
    pid_t main;                          /* 0: ended */
    int stopping, told_rest;
    int64_t kill_at, read_at; /* clock_now; kill_at counts while stopping */
};

static int fail(int status, const char *what, const char *why) {
    fprintf(stderr, "kneepoint-keeper: %s%s%s\n", what, *why ? ": " : "", why);
    return status;
}

static void be_command(char **words, const sigset_t *mask, pid_t keeper, int output) {
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL))
        return;
    if (getppid() != keeper)
        _exit(127);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    /* Ours close by themselves; this is for what our starter left open. Old kernels do not have it. */
    syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
    execvp(words[0], words);
}

/* Runs the command; 0 when it has been executed, else the negated errno that says why not. */
static int start(struct keeper *keeper, char **words, const sigset_t *mask) {
    int report[2], output[2], error = 0;
    pid_t self = getpid();
    if (pipe2(report, O_CLOEXEC) || pipe2(output, O_CLOEXEC))
        return -errno;
    fcntl(output[0], F_SETPIPE_SZ, PIPE);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    keeper->main = fork();
    if (keeper->main < 0)
        return -errno;
    if (!keeper->main) {
        be_command(words, mask, self, output[1]);
        error = errno;
        _exit(write(report[1], &error, sizeof(error)) == sizeof(error) ? 127 : 126);
    }
    close(report[1]);
    close(output[1]);
    keeper->output = output[0];
    ssize_t got = read(report[0], &error, sizeof(error));
    close(report[0]);
    return got == sizeof(error) ? -error : 0;
}

/* Reads what is there into the ring. A chatty command would wake us for each line, on a processor that it may
 * be measured on; so the next look is a moment later, unless the pipe, which is large, fills faster than
 * that. */
static void drain(struct keeper *keeper) {
    struct page *page = keeper->page;
    uint64_t written = atomic_load(&page->written), before = written;
    ssize_t got = 0;
    for (int i = 0; i < BURST; i++) {
        size_t at = written % RING;
        struct iovec parts[2] = {{page->ring + at, RING - at}, {page->ring, at}};
        got = readv(keeper->output, parts, 2);
        if (got <= 0)
            break;
        written += (uint64_t)got;
        atomic_store(&page->written, written);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        close(keeper->output);
        keeper->output = -1;
    }
    keeper->read_at = written - before < PIPE / 2 ? clock_now() + READ_PAUSE : 0;
}

static void tell_all(int signal) {
    int pids[PROCTREE_MAX];
    size_t count;
    proctree_list(-getpid(), pids, PROCTREE_MAX, &count);
    for (size_t i = 0; i < count; i++)
        kill(pids[i], signal);
}

/* Stops all before it kills any, for what is stopped does not fork: until two looks show the same processes.
 */
static void kill_all(void) {
    int pids[2][PROCTREE_MAX];
    size_t count[2] = {0, 0};
    int now = 0, round = 0;
    do {
        now = !now;
        proctree_list(-getpid(), pids[now], PROCTREE_MAX, &count[now]);
        for (size_t i = 0; i < count[now]; i++)
            kill(pids[now][i], SIGSTOP);
    } while ((count[now] != count[!now] || memcmp(pids[now], pids[!now], count[now] * sizeof(int))) &&
             ++round < STOP_ROUNDS);
    tell_all(SIGKILL);
}

static void stop(struct keeper *keeper) {
    if (keeper->stopping)
        return;
    keeper->stopping = 1;
    keeper->kill_at = clock_now() + keeper->grace;
    if (keeper->main)
        kill(keeper->main, SIGTERM);
}

/* Takes the statuses of all that ended. 0: nothing of the command is left. */
static int reap(struct keeper *keeper) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != keeper->main)
            continue;
        /* Whoever sees that it ended shall see its last words too. */
        if (keeper->output >= 0)
            drain(keeper);
        keeper->main = 0;
        keeper->page->status = status;
        atomic_store(&keeper->page->ended, 1);
    }
    return pid == 0;
}

static void read_signals(struct keeper *keeper) {
    struct signalfd_siginfo info;
    while (read(keeper->signals, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            stop(keeper);
}

static void await(struct keeper *keeper) {
    int64_t now = clock_now(), until = keeper->stopping ? keeper->kill_at : INT64_MAX;
    int paused = keeper->output >= 0 && keeper->read_at > now;
    if (paused && keeper->read_at < until)
        until = keeper->read_at;
    struct timespec pause = clock_spec(until > now ? until - now : 0);
    struct pollfd ready[] = {
        {.fd = keeper->signals, .events = POLLIN},
        {.fd = paused ? -1 : keeper->output, .events = POLLIN},
        {.fd = keeper->stopping ? -1 : keeper->alive},
        {.fd = keeper->stopping ? -1 : keeper->starter, .events = POLLIN},
    };
    if (ppoll(ready, 4, until == INT64_MAX ? NULL : &pause, NULL) < 0)
        return;
    if (ready[0].revents)
        read_signals(keeper);
    if (ready[1].revents)
        drain(keeper);
    if (ready[2].revents || ready[3].revents)
        stop(keeper);
}

static void keep(struct keeper *keeper) {
    while (reap(keeper)) {
        if (keeper->stopping && !keeper->main && !keeper->told_rest) {
            keeper->told_rest = 1;
            tell_all(SIGTERM);
        }
        if (keeper->stopping && clock_now() >= keeper->kill_at) {
            kill_all();
            keeper->kill_at = clock_now() + KILL_PAUSE;
        }
        await(keeper);
    }
    if (keeper->output >= 0)
        drain(keeper);
}

static int number(const char *text, double high, double *out) {
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= 0 && *out <= high ? 0 : -EINVAL;
}

static struct page *map_page(int fd) {
    struct stat stat;
    if (fstat(fd, &stat) || stat.st_size < (off_t)sizeof(struct page))
        return NULL;
    void *page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

/* Signals come by a descriptor, and no other than those that cannot be blocked has an effect: nothing but
 * SIGKILL keeps this process from cleaning up. */
static int take_signals(sigset_t *before) {
    sigset_t all, wanted;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
    sigemptyset(&wanted);
    const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        sigaddset(&wanted, signals[i]);
    signal(SIGCHLD, SIG_DFL);
    return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

static const char *why_not_run(const char *word, int error) {
    if (error != ENOENT)
        return strerror(error);
    if (!strchr(word, '/'))
        return "not found on PATH";
    return access(word, F_OK) ? "No such file" : "the interpreter that its first line names is not there";
}

int main(int count, char **words) {
    struct keeper keeper = {.output = -1};
    double alive, page, grace;
    sigset_t mask;
    if (count < 5 || number(words[1], 65535, &alive) || number(words[2], 65535, &page) ||
        number(words[3], 3600, &grace))
        return fail(2, "usage: kneepoint-keeper ALIVE PAGE GRACE COMMAND [WORD ...]", "");
    keeper.alive = (int)alive;
    keeper.grace = (int64_t)(grace * 1e9);
    keeper.signals = take_signals(&mask);
    keeper.starter = (int)syscall(SYS_pidfd_open, getppid(), 0);
    keeper.page = map_page((int)page);
    if (keeper.signals < 0 || !keeper.page || fcntl(keeper.alive, F_SETFD, FD_CLOEXEC) ||
        fcntl((int)page, F_SETFD, FD_CLOEXEC) || prctl(PR_SET_CHILD_SUBREAPER, 1UL))
        return fail(1, "cannot prepare", strerror(errno));
    int rc = start(&keeper, words + 4, &mask);
    if (rc)
        return fail(2, words[4], why_not_run(words[4], -rc));
    printf("running %d\n", keeper.main);
    fflush(stdout);
    keep(&keeper);
    int status = keeper.page->status;
    munmap(keeper.page, sizeof(struct page));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
