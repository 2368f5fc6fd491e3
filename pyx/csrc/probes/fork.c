/* A process made and waited for: a copy of this one, or a program.
 *
 * Its maker is the small process of the probe. A copy costs more the more memory its maker has touched, as
 * the tables of its pages are copied: `touched` says how much that is. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "/bin/true"

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "fork", "fork|vfork|posix_spawn", "",
     "a copy that ends at once; one that borrows its maker's memory; or " PROGRAM ", with its loading"},
    {"touched", KNOB_INT, "0", "0:1048576", "kB", "memory that the maker has touched before, in small pages"},
    {0},
};

struct own {
    int (*make)(pid_t *pid);
    void *touched;
    size_t bytes;
};

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (config_is(config, "variant", "posix_spawn"))
        form->unit = "program started and waited for";
}

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)processes, (void)size;
    long most = sysconf(_SC_PHYS_PAGES) / 2 * (sysconf(_SC_PAGESIZE) >> 10) / pairs;
    if (config_int(config, "touched") > most)
        snprintf(message, room, "touched=%ld with %d of them is over half of the memory: at most %ld",
                 config_int(config, "touched"), pairs, most);
    else if (config_is(config, "variant", "posix_spawn") && access(PROGRAM, X_OK))
        snprintf(message, room, "posix_spawn starts " PROGRAM ", which cannot be run here: %s",
                 strerror(errno));
    else
        return 0;
    return -EINVAL;
}

static int make_copy(pid_t *pid) {
    *pid = fork();
    if (!*pid)
        _exit(0);
    return *pid < 0 ? -errno : 0;
}

static int make_borrower(pid_t *pid) {
    pid_t child = vfork();
    if (!child)
        _exit(0);
    *pid = child;
    return child < 0 ? -errno : 0;
}

static int make_program(pid_t *pid) {
    static char *const words[] = {PROGRAM, NULL}, *const environment[] = {NULL};
    return -posix_spawn(pid, PROGRAM, NULL, NULL, words, environment);
}

static int open_end(struct probe_end *me) {
    struct own *own = me->own = calloc(1, sizeof(*own));
    if (!own)
        return -ENOMEM;
    own->make = config_is(me->config, "variant", "fork")    ? make_copy
                : config_is(me->config, "variant", "vfork") ? make_borrower
                                                            : make_program;
    size_t bytes = (size_t)config_int(me->config, "touched") << 10;
    if (!bytes)
        return 0;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    own->touched = memory;
    own->bytes = bytes;
    madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without large pages refuses, and is right */
    memset(memory, 1, bytes);
    return 0;
}

static int wait_for(pid_t pid) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -ECHILD;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    const struct own *own = me->own;
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        pid_t pid;
        if ((rc = own->make(&pid)))
            break;
        me->sent++;
        rc = wait_for(pid);
        me->received += !rc;
    }
    return rc;
}

static void close_end(struct probe_end *me) {
    struct own *own = me->own;
    if (own && own->touched)
        munmap(own->touched, own->bytes);
    free(own);
}

static const struct probe_ops fork_probe = {
    .name = "fork",
    .summary = "a process made and waited for",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES, /* a copy of a process of many threads is another question */
    .form = {.unit = "process made and waited for", .ends = 1},
    .shape = shape,
    .check = check,
    .open = open_end,
    .work = work,
    .close = close_end,
};
REGISTER_PROBE(fork_probe);
