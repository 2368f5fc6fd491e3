/* A thread made and joined; and how long it takes from its making to its first instruction. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/probe.h"
#include "../core/registry.h"
#include "figure.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EACH = 8 };

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "joined", "joined", "", "made, and waited for until it has ended"},
    {"stack", KNOB_INT, "8192", "16:1048576", "kB", "of its stack, of which it touches little"},
    {0},
};

struct own {
    pthread_attr_t attributes;
    int64_t first; /* the clock at the thread's first instruction */
    uint64_t made;
    struct figure latency;
};

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)pairs, (void)processes, (void)size;
    long least = sysconf(_SC_THREAD_STACK_MIN) >> 10, stack = config_int(config, "stack");
    if (stack >= least)
        return 0;
    snprintf(message, room, "stack=%ld is less than a thread's stack can be here: %ld kB", stack, least);
    return -EINVAL;
}

static int open_end(struct probe_end *me) {
    struct own *own = calloc(1, sizeof(*own));
    if (!own)
        return -ENOMEM;
    int rc = pthread_attr_init(&own->attributes);
    if (rc) {
        free(own);
        return -rc;
    }
    me->own = own;
    return -pthread_attr_setstacksize(&own->attributes, (size_t)config_int(me->config, "stack") << 10);
}

static void *timed(void *argument) {
    ((struct own *)argument)->first = clock_now();
    return NULL;
}

static void *plain(void *argument) {
    (void)argument;
    return NULL;
}

/* One of EACH reads the clock, so that the others are what a user's would be. */
static int make_one(struct own *own) {
    int looked_at = own->made++ % EACH == 0;
    int64_t start = looked_at ? clock_now() : 0;
    pthread_t thread;
    int rc = pthread_create(&thread, &own->attributes, looked_at ? timed : plain, own);
    rc = rc ? rc : pthread_join(thread, NULL);
    if (!rc && looked_at)
        figure_add(&own->latency, (double)(own->first - start));
    return -rc;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++)
        rc = make_one(me->own);
    return rc;
}

static void close_end(struct probe_end *me) {
    struct own *own = me->own;
    if (!own)
        return;
    figure_note(&own->latency, me, "first_run_p50_ns");
    pthread_attr_destroy(&own->attributes);
    free(own);
}

static const struct probe_ops thread_create_probe = {
    .name = "thread_create",
    .summary = "a thread made and joined",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "thread made and joined", .ends = 1},
    .check = check,
    .open = open_end,
    .work = work,
    .close = close_end,
};
REGISTER_PROBE(thread_create_probe);
