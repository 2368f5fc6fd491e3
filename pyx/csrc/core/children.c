#define _GNU_SOURCE
#include "children.h"

#include "child.h"
#include "clock.h"
#include "conn.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SLEEP_NS = 5000, GRACE_MS = 2000 };

int children_create(struct children *children, const struct server_env *env, enum counter_role role,
                    size_t capacity, void (*serve)(struct children *children, struct child *self, int fd)) {
    *children = (struct children){.env = *env, .role = role, .serve = serve, .capacity = capacity};
    children->child = calloc(capacity, sizeof(*children->child));
    if (!children->child)
        return -ENOMEM;
    void *posts = mmap(NULL, capacity * sizeof(*children->posts), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (posts == MAP_FAILED) {
        free(children->child);
        return -errno;
    }
    children->posts = posts;
    for (size_t i = capacity; i-- > 0;) {
        struct child *child = &children->child[i];
        child->post = &children->posts[i];
        child->next_free = children->free;
        children->free = child;
    }
    return 0;
}

void children_destroy(struct children *children) {
    for (size_t i = 0; i < children->capacity; i++)
        if (children->child[i].block)
            counters_vacate(children->child[i].block);
    munmap(children->posts, children->capacity * sizeof(*children->posts));
    free(children->child);
}

static int keep_only(int fd) {
    if (fd > STDERR_FILENO + 1 && close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0))
        return -errno;
    return close_range((unsigned)fd + 1, UINT_MAX, 0) ? -errno : 0;
}

static void send_away(struct child *child) {
    child->dismissed = 1;
    kill(child->pid, SIGKILL);
}

int children_fork(struct children *children, int fd, struct child **out) {
    struct child *child = children->free;
    if (!child->block)
        child->block = counters_claim(children->env.counters, children->role);
    counters_lend(child->block);
    atomic_store(&child->post->leaving, 0);
    atomic_store(&child->post->working, 1);
    pid_t pid = child_fork();
    if (!pid) {
        if (keep_only(fd))
            _exit(1);
        children->serve(children, child, fd);
        _exit(0);
    }
    int rc = pid < 0 ? -errno : 0;
    close(fd); /* and its number is there for the process's */
    if (rc)
        return rc;
    children->free = child->next_free;
    children->count++;
    child->pid = pid;
    child->dismissed = 0;
    counters_lent(child->block, pid);
    child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (child->pidfd < 0) {
        rc = -errno;
        children_dismiss(children, child);
        return rc;
    }
    *out = child;
    return 0;
}

void children_reap(struct children *children, struct child *child) {
    const struct service_ops *service = children->env.service;
    struct counter_block *block = child->block;
    struct rusage usage = {0};
    int status = 0;
    while (wait4(child->pid, &status, 0, &usage) < 0 && errno == EINTR)
        ;
    if (child->pidfd >= 0)
        close(child->pidfd);
    counters_settle(block, &usage);
    uint64_t cut = atomic_load(&block->accepted) - atomic_load(&block->closed);
    COUNT(block, closed, cut);
    if (status && !child->dismissed) {
        COUNT(block, died, 1);
        COUNT(block, errors, cut);
    }
    if (status && service->lost)
        service->lost(children->env.state, child->pid);
    child->pid = 0;
    child->next_free = children->free;
    children->free = child;
    children->count--;
}

void children_dismiss(struct children *children, struct child *child) {
    send_away(child);
    children_reap(children, child);
}

void children_stop(struct children *children) {
    for (size_t i = 0; i < children->capacity; i++) {
        struct child *child = &children->child[i];
        if (!child->pid)
            continue;
        atomic_store(&child->post->leaving, 1);
        if (!atomic_load(&child->post->working))
            send_away(child);
    }
    int64_t deadline = clock_now() + GRACE_MS * INT64_C(1000000);
    for (size_t i = 0; i < children->capacity; i++) {
        struct child *child = &children->child[i];
        struct pollfd ended = {child->pidfd, POLLIN, 0};
        int64_t left;
        if (!child->pid)
            continue;
        while ((left = deadline - clock_now()) > 0 && poll(&ended, 1, (int)(left / 1000000) + 1) <= 0)
            ;
        if (ended.revents)
            children_reap(children, child);
        else
            children_dismiss(children, child);
    }
}

int children_rest(struct child *self) {
    atomic_store(&self->post->working, 0);
    return atomic_load(&self->post->leaving);
}

int children_work(struct child *self) {
    atomic_store(&self->post->working, 1);
    return atomic_load(&self->post->leaving);
}

void children_waited(struct child *self, int64_t start) {
    int64_t now = clock_now();
    if (now - start > SLEEP_NS) {
        COUNT(self->block, sleeps, 1);
        COUNT(self->block, wait_ns, now - start);
    }
    counters_publish(self->block, now);
}

/* What is there to be served; as conn_fill, or -ECANCELED when the process is to leave. */
static int receive(struct conn *conn, struct child *self) {
    if (children_rest(self))
        return -ECANCELED;
    int64_t start = clock_now();
    int rc = conn_fill(conn, 0);
    if (children_work(self))
        return -ECANCELED;
    children_waited(self, start);
    return rc;
}

void children_serve(struct children *children, struct child *self, int fd) {
    struct conn *conn;
    if (conn_create(&children->env, fd, &conn)) {
        COUNT(self->block, errors, 1);
        return;
    }
    COUNT(self->block, accepted, 1);
    while (receive(conn, self) >= 0 && conn_serve(conn, 0, self->block) >= 0)
        ;
    conn_destroy(conn);
    COUNT(self->block, closed, 1);
}
