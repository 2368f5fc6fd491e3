/* A message through POSIX message queues: there and back through two of them, or one way through one.
 *
 * A queue has a name only while it is being made. The name is the same for all queues of a user, and whoever
 * finds it taken takes it over: so a process that was killed in between leaves at most one small queue, which
 * the next one removes. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "pingpong", "pingpong|spsc|calls", "",
     "there and back; one way, from an end that only sends; or the calls of a round trip by one end alone"},
    {"depth", KNOB_INT, "10", "1:65536", "messages", "messages that fit into the queue of variant=spsc"},
    {0},
};

enum { THERE, BACK };
/* Priorities: what has the lower is received after all others. */
enum { LAST, ORDINARY };
enum { NAME_TRIES = 1000 };
/* One way, most messages find room in the queue and cost little, and one has to wait: only several queues of
 * them say what a message costs. */
enum { QUEUES_A_BATCH = 8 };
/* What the kernel counts for each message that fits, beside its bytes: two records of 48 bytes. */
enum { MESSAGE_OVERHEAD = 96 };
enum { SPARE_FILES = 64 }; /* descriptors that a run has beside its queues, at most */

static int spsc(const struct config *config) {
    return config_is(config, "variant", "spsc");
}

static int queues(const struct config *config) {
    return spsc(config) ? 1 : 2;
}

static long depth(const struct config *config) {
    return spsc(config) ? config_int(config, "depth") : 1;
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    (void)size;
    if (spsc(config)) {
        form->unit = "message";
        form->batch = (uint64_t)(QUEUES_A_BATCH * depth(config));
    }
    if (config_is(config, "variant", "calls"))
        *form = (struct probe_form){.unit = "send and receive, twice", .ends = 1, .sized = 1};
}

/* ---- making queues ---- */

static int make_queue(const struct config *config, size_t size, int *fd) {
    struct mq_attr attributes = {.mq_maxmsg = depth(config), .mq_msgsize = (long)size};
    char name[40];
    snprintf(name, sizeof(name), "/kneepoint-probe-%u", (unsigned)geteuid());
    for (int i = 0; i < NAME_TRIES; i++) {
        *fd = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
        int rc = *fd < 0 ? -errno : 0;
        if (!rc || rc == -EEXIST)
            mq_unlink(name);
        if (rc != -EEXIST)
            return rc;
    }
    return -EEXIST;
}

static int prepare(const struct config *config, size_t size, int fd[PROBE_FDS]) {
    int rc = 0;
    for (int i = 0; i < queues(config) && !rc; i++)
        rc = make_queue(config, size, &fd[i]);
    return rc;
}

/* ---- the limits ---- */

static long limit(const char *name) {
    char path[64];
    long value = -1;
    snprintf(path, sizeof(path), "/proc/sys/fs/mqueue/%s", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%ld", &value) != 1)
        value = -1;
    fclose(file);
    return value;
}

/* EMFILE means too many descriptors, or too many bytes. */
static void explain_full(int wanted, size_t bytes, char *message, size_t room) {
    struct rlimit files = {0}, most = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_MSGQUEUE, &most);
    int spare = dup(STDERR_FILENO);
    if (spare < 0)
        snprintf(message, room, "%d queues, but a process may have %llu descriptors: `ulimit -n %d` lifts it",
                 wanted, (unsigned long long)files.rlim_cur, wanted + SPARE_FILES);
    else
        snprintf(message, room,
                 "%d queues take %zu bytes, but this user may have %llu, with all others: `ulimit -q %llu` "
                 "lifts it",
                 wanted, bytes, (unsigned long long)most.rlim_cur,
                 (unsigned long long)(bytes > most.rlim_cur ? bytes : bytes + most.rlim_cur));
    close(spare);
}

/* What mq_open says names no limit, or the wrong one. Called while the queues that could be made are open. */
static int explain(int rc, const struct config *config, int wanted, size_t size, char *message, size_t room) {
    long deep = depth(config);
    if (rc == -EINVAL && (long)size > limit("msgsize_max"))
        snprintf(message, room,
                 "messages of %zu bytes, but a queue allows %ld: `sysctl fs.mqueue.msgsize_max=%zu` lifts it",
                 size, limit("msgsize_max"), size);
    else if (rc == -EINVAL)
        snprintf(message, room,
                 "depth=%ld, but a queue may hold %ld messages: `sysctl fs.mqueue.msg_max=%ld` lifts it",
                 deep, limit("msg_max"), deep);
    else if (rc == -ENOSPC)
        snprintf(message, room,
                 "%d queues, but this machine allows %ld, with all others: `sysctl fs.mqueue.queues_max=%ld` "
                 "lifts it",
                 wanted, limit("queues_max"), wanted + limit("queues_max"));
    else if (rc == -EMFILE)
        explain_full(wanted, (size_t)(wanted * deep) * (size + MESSAGE_OVERHEAD), message, room);
    else
        snprintf(message, room, "cannot make a message queue: %s", strerror(-rc));
    return rc == -EINVAL || rc == -ENOSPC || rc == -EMFILE ? -EINVAL : rc;
}

/* Makes all queues, to see whether they can be made. */
static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)processes;
    *size = *size ? *size : 1;
    int wanted = pairs * queues(config), made = 0, rc = 0;
    int *fd = malloc((size_t)wanted * sizeof(*fd));
    if (!fd)
        return -ENOMEM;
    while (made < wanted && !(rc = make_queue(config, *size, &fd[made])))
        made++;
    if (rc)
        rc = explain(rc, config, wanted, *size, message, room);
    while (made)
        close(fd[--made]);
    free(fd);
    return rc;
}

/* ---- the ends ---- */

static int open_end(struct probe_end *me) {
    me->own = calloc(1, me->size);
    return me->own ? 0 : -ENOMEM;
}

/* Messages are numbered, in as many bytes as they have. */
static size_t stamp(const struct probe_end *me) {
    return me->size < sizeof(uint64_t) ? me->size : sizeof(uint64_t);
}

static int give(struct probe_end *me, int queue, unsigned priority) {
    memcpy(me->own, &me->sent, stamp(me));
    while (mq_send(me->fd[queue], me->own, me->size, priority))
        if (errno != EINTR)
            return -errno;
    me->sent++;
    return 0;
}

static int take(struct probe_end *me, int queue, unsigned *priority) {
    ssize_t got;
    while ((got = mq_receive(me->fd[queue], me->own, me->size, priority)) < 0)
        if (errno != EINTR)
            return -errno;
    if ((size_t)got != me->size || memcmp(me->own, &me->received, stamp(me)))
        return -EPROTO;
    me->received++;
    return 0;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int one_way = spsc(me->config), alone = me->ends == 1, rc = 0;
    unsigned ignored, priority = one_way && atomic_load(me->stop) ? LAST : ORDINARY;
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = give(me, THERE, priority);
        if (rc || one_way)
            continue;
        rc = alone ? take(me, THERE, &ignored) : 0;
        rc = rc || !alone ? rc : give(me, BACK, ORDINARY);
        rc = rc ? rc : take(me, BACK, &ignored);
    }
    return rc;
}

/* One way it drains the queue: what was sent last says so. */
static int serve(struct probe_end *me) {
    int one_way = spsc(me->config), rc = 0, last = 0;
    while (!rc && !last) {
        unsigned priority;
        rc = take(me, THERE, &priority);
        last = one_way ? priority == LAST : atomic_load(me->stop);
        rc = rc || one_way ? rc : give(me, BACK, ORDINARY);
    }
    return rc;
}

static void close_end(struct probe_end *me) {
    free(me->own);
}

static const struct probe_ops mqueue_probe = {
    .name = "mqueue",
    .summary = "a message through POSIX message queues",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2, .sized = 1},
    .shape = shape,
    .check = check,
    .prepare = prepare,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(mqueue_probe);
