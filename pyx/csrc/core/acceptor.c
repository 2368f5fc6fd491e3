#include "acceptor.h"

#include "clock.h"
#include "sock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#include <sys/syscall.h>
#endif

enum { SLEEP_NS = 5000, PAUSE_MS = 10 };

static int control(struct acceptor *acceptor, int operation, int fd, uint32_t events, void *tag) {
    struct epoll_event event = {.events = events, .data.ptr = tag};
    return epoll_ctl(acceptor->epoll, operation, fd, &event) ? -errno : 0;
}

int acceptor_create(struct acceptor *acceptor, int listener, int watching) {
    *acceptor = (struct acceptor){.listener = listener, .wake = -1, .epoll = -1};
    acceptor->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = acceptor->wake < 0 ? -errno : 0;
    if (!rc && watching) {
        acceptor->epoll = epoll_create1(EPOLL_CLOEXEC);
        rc = acceptor->epoll < 0 ? -errno
                                 : control(acceptor, EPOLL_CTL_ADD, acceptor->wake, EPOLLIN, acceptor);
        if (!rc)
            rc = control(acceptor, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    }
    if (rc)
        acceptor_destroy(acceptor);
    return rc;
}

void acceptor_destroy(struct acceptor *acceptor) {
    if (acceptor->wake >= 0)
        close(acceptor->wake);
    if (acceptor->epoll >= 0)
        close(acceptor->epoll);
}

int acceptor_wake(struct acceptor *acceptor) {
    return eventfd_write(acceptor->wake, 1) ? -errno : 0;
}

void acceptor_pause(struct acceptor *acceptor) {
    if (acceptor->epoll < 0)
        poll(&(struct pollfd){acceptor->wake, POLLIN, 0}, 1, PAUSE_MS);
    else if (!control(acceptor, EPOLL_CTL_MOD, acceptor->listener, 0, NULL))
        acceptor->paused_until = clock_now() + PAUSE_MS * INT64_C(1000000);
}

void acceptor_resume(struct acceptor *acceptor) {
    if (acceptor->paused_until && !control(acceptor, EPOLL_CTL_MOD, acceptor->listener, EPOLLIN, NULL))
        acceptor->paused_until = 0;
}

static int64_t count_wait(struct counter_block *me, int64_t start) {
    int64_t now = clock_now();
    COUNT(me, polls, 1);
    if (now - start > SLEEP_NS) {
        COUNT(me, sleeps, 1);
        COUNT(me, wait_ns, now - start);
    }
    counters_publish(me, now);
    return now;
}

int acceptor_next(struct acceptor *acceptor, struct counter_block *me) {
    for (;;) {
        int64_t start = clock_now();
        int fd = sock_accept_wait(acceptor->listener, acceptor->wake);
        count_wait(me, start);
        if (fd >= 0 || fd == -ECANCELED)
            return fd;
        COUNT(me, errors, 1);
        acceptor_pause(acceptor);
    }
}

int acceptor_wait(struct acceptor *acceptor, struct epoll_event *events, int capacity,
                  struct counter_block *me) {
    int64_t start = clock_now();
    int count = epoll_wait(acceptor->epoll, events, capacity, acceptor->paused_until ? PAUSE_MS : -1);
    int64_t now = count_wait(me, start);
    if (now >= acceptor->paused_until)
        acceptor_resume(acceptor);
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == acceptor)
            return -ECANCELED;
#ifdef __SANITIZE_THREAD__
        if (events[i].data.ptr)
            __tsan_acquire(events[i].data.ptr);
#endif
    }
    return count < 0 ? 0 : count;
}

int acceptor_take(struct acceptor *acceptor, struct counter_block *me) {
    int fd;
    do
        fd = sock_accept(acceptor->listener);
    while (fd == -ECONNABORTED || fd == -EINTR);
    if (fd >= 0 || fd == -EAGAIN)
        return fd;
    COUNT(me, errors, 1);
    acceptor_pause(acceptor);
    return -EAGAIN;
}

int acceptor_add(struct acceptor *acceptor, int fd, uint32_t events, void *tag) {
    return control(acceptor, EPOLL_CTL_ADD, fd, events | EPOLLONESHOT, tag);
}

/* The kernel orders what a thread did before EPOLL_CTL_MOD before the event that this leads to, and needs the
 * descriptor no more by then, so that whoever gets the event may close it. ThreadSanitizer believes that of
 * EPOLL_CTL_ADD only: in its builds the call goes past it, and it is told. */
int acceptor_arm(struct acceptor *acceptor, int fd, uint32_t events, void *tag) {
#ifdef __SANITIZE_THREAD__
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = tag};
    __tsan_release(tag);
    return syscall(SYS_epoll_ctl, acceptor->epoll, EPOLL_CTL_MOD, fd, &event) ? -errno : 0;
#else
    return control(acceptor, EPOLL_CTL_MOD, fd, events | EPOLLONESHOT, tag);
#endif
}
