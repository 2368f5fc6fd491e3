/* A POSIX semaphore: two ends that let each other go in turn; a producer and a consumer around a bounded
 * buffer.
 *
 * Each semaphore has cache lines of its own, so that an end that waits on one does not slow down the other.
 *
 * spsc is the textbook's buffer: empty counts free slots, full counts filled ones, mutex guards the rest. The
 * number of a message is in its first bytes, and the consumer checks it. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"
#include "futexes.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A producer goes on until the buffer is full and then sleeps until it is not, so that single messages take
 * either very little or very long and their median says nothing: several buffers are timed together. */
enum { LEAST_BATCH = 64, BUFFERS_A_BATCH = 4 };
#define MOST_BYTES (256ull << 20) /* of all buffers */
#define LAST (1ull << 63)         /* in the number of a message: the producer leaves after it */

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "pingpong", "pingpong|spsc|calls", "",
     "ends in turn; a producer and a consumer; or the calls of a round trip by one end, which never waits"},
    {"slots", KNOB_INT, "10", "1:4096", "messages", "of the buffer between producer and consumer (spsc)"},
    {"sleeps", KNOB_INT, "2", "0:2", "", "of a round trip, whose system calls are made (calls)"},
    {0},
};

struct shared {
    _Alignas(PROBE_APART) sem_t there;
    _Alignas(PROBE_APART) sem_t back;
    _Alignas(PROBE_APART) sem_t empty;
    _Alignas(PROBE_APART) sem_t full;
    _Alignas(PROBE_APART) sem_t mutex;
    uint64_t in, out; /* messages so far; guarded by mutex */
    _Alignas(PROBE_APART) _Atomic uint32_t word;
    _Alignas(PROBE_APART) char slot[];
};

struct own {
    int64_t (*work)(struct probe_end *me, uint64_t count); /* of the variant */
    size_t slots;
    uint64_t sleeps;  /* of a round trip (calls) */
    double occupancy; /* summed over all messages taken */
    char message[];
};

static int is(const struct config *config, const char *variant) {
    return config_is(config, "variant", variant);
}

static size_t slots_of(const struct config *config) {
    return (size_t)config_int(config, "slots");
}

static void shape(const struct config *config, size_t size, struct probe_form *form) {
    if (is(config, "calls"))
        *form = (struct probe_form){.unit = "post and wait with their system calls, twice",
                                    .ends = 1,
                                    .shared = sizeof(struct shared)};
    else if (is(config, "spsc"))
        *form = (struct probe_form){
            .unit = "message",
            .ends = 2,
            .sized = 1,
            .shared = sizeof(struct shared) + slots_of(config) * size,
            .batch = LEAST_BATCH + BUFFERS_A_BATCH * slots_of(config),
        };
}

static int check(const struct config *config, int pairs, int processes, size_t *size, char *message,
                 size_t room) {
    (void)processes;
    if (!is(config, "spsc"))
        return 0;
    *size = *size < sizeof(uint64_t) ? sizeof(uint64_t) : *size; /* its number */
    unsigned long long each = slots_of(config) * *size;
    if (each <= MOST_BYTES / (unsigned)pairs)
        return 0;
    snprintf(message, room,
             "the buffers (pairs: %d, slots: %zu, bytes: %zu) need %llu MiB, %llu are allowed: ask for less",
             pairs, slots_of(config), *size, (each * (unsigned)pairs) >> 20, MOST_BYTES >> 20);
    return -EINVAL;
}

static int begin(const struct probe_end *me) {
    struct shared *shared = me->shared;
    sem_t *const nought[] = {&shared->there, &shared->back, &shared->full};
    int rc = sem_init(&shared->mutex, me->processes, 1) ||
             sem_init(&shared->empty, me->processes, (unsigned)slots_of(me->config));
    for (int i = 0; i < 3; i++)
        rc = rc || sem_init(nought[i], me->processes, 0);
    return rc ? -errno : 0;
}

static int down(sem_t *semaphore) {
    while (sem_wait(semaphore))
        if (errno != EINTR)
            return -errno;
    return 0;
}

static int up(sem_t *semaphore) {
    return sem_post(semaphore) ? -errno : 0;
}

/* ---- in turn ---- */

static int64_t round_trips(struct probe_end *me, uint64_t count) {
    struct shared *shared = me->shared;
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        rc = up(&shared->there);
        me->sent++;
        rc = rc ? rc : down(&shared->back);
        me->received++;
    }
    return rc;
}

static int answer(struct probe_end *me) {
    struct shared *shared = me->shared;
    int rc = 0, last = 0;
    while (!rc && !last) {
        rc = down(&shared->there);
        me->received++;
        last = atomic_load(me->stop);
        rc = rc ? rc : up(&shared->back);
        me->sent++;
    }
    return rc;
}

/* A post and a wait that meet nobody stay out of the kernel, but in a round trip an end sleeps by one futex
 * call and is woken by another: these are made here as well, in forms that find nothing to do. Two such pairs
 * are right where both ends sleep. On one CPU the end that is woken often runs at once and answers before the
 * other has begun to wait, which then need not sleep nor be woken: the ends' voluntary switches say how many
 * did. */
static int64_t calls(struct probe_end *me, uint64_t count) {
    struct shared *shared = me->shared;
    uint64_t sleeps = ((struct own *)me->own)->sleeps;
    int rc = 0;
    for (uint64_t i = 0; i < 2 * count && !rc; i++) {
        rc = up(&shared->there);
        rc = rc ? rc : down(&shared->there);
        if (i % 2 < sleeps)
            rc = rc ? rc : futexes_nobody(&shared->word, me->processes);
    }
    return rc;
}

/* ---- producer and consumer ---- */

static int give(struct probe_end *me) {
    struct shared *shared = me->shared;
    struct own *own = me->own;
    uint64_t number = me->sent++ | (atomic_load(me->stop) ? LAST : 0);
    memcpy(own->message, &number, sizeof(number));
    int rc = down(&shared->empty);
    rc = rc ? rc : down(&shared->mutex);
    if (rc)
        return rc;
    memcpy(shared->slot + shared->in++ % own->slots * me->size, own->message, me->size);
    rc = up(&shared->mutex);
    return rc ? rc : up(&shared->full);
}

static int take(struct probe_end *me, int *last) {
    struct shared *shared = me->shared;
    struct own *own = me->own;
    int rc = down(&shared->full);
    rc = rc ? rc : down(&shared->mutex);
    if (rc)
        return rc;
    own->occupancy += (double)(shared->in - shared->out);
    memcpy(own->message, shared->slot + shared->out++ % own->slots * me->size, me->size);
    rc = up(&shared->mutex);
    rc = rc ? rc : up(&shared->empty);
    uint64_t number;
    memcpy(&number, own->message, sizeof(number));
    *last = !!(number & LAST);
    return rc ? rc : (number & ~LAST) == me->received++ ? 0 : -EBADMSG;
}

static int64_t produce(struct probe_end *me, uint64_t count) {
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++)
        rc = give(me);
    return rc;
}

static int consume(struct probe_end *me) {
    struct own *own = me->own;
    int rc = 0, last = 0;
    while (!rc && !last)
        rc = take(me, &last);
    probe_note(me, "occupancy_messages", own->occupancy / (double)(me->received ? me->received : 1));
    return rc;
}

/* ---- */

static int open_end(struct probe_end *me) {
    struct own *own = me->own = calloc(1, sizeof(*own) + me->size);
    if (!own)
        return -ENOMEM;
    own->slots = slots_of(me->config);
    own->sleeps = (uint64_t)config_int(me->config, "sleeps");
    own->work = is(me->config, "calls") ? calls : is(me->config, "spsc") ? produce : round_trips;
    return me->end ? 0 : begin(me);
}

static int64_t work(struct probe_end *me, uint64_t count) {
    return ((struct own *)me->own)->work(me, count);
}

static int serve(struct probe_end *me) {
    return is(me->config, "spsc") ? consume(me) : answer(me);
}

static void close_end(struct probe_end *me) {
    free(me->own);
}

static const struct probe_ops semaphore_probe = {
    .name = "semaphore",
    .summary = "a POSIX semaphore, in turn or around a bounded buffer",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "round trip", .ends = 2, .shared = sizeof(struct shared)},
    .shape = shape,
    .check = check,
    .open = open_end,
    .work = work,
    .serve = serve,
    .close = close_end,
};
REGISTER_PROBE(semaphore_probe);
