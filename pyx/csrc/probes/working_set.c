/* What a move to another CPU costs afterwards: the first walk over memory that the other CPU's caches hold.
 *
 * A unit: the end moves itself away, walks its memory cold (this is timed), walks it again hot, and goes back
 * home, where it walks it once more, so that the next move finds it there. So each unit begins and ends on
 * the same CPU: being moved is the probe's purpose, and nobody outside sees it. The cold walk less the hot
 * one is what the move cost. Each line is written too, as a server writes its state, so that it must come
 * from the CPU that wrote it.
 *
 * `shuffled` follows a random cycle through the lines, which waits for each in turn; `ordered` goes through
 * them as they lie, which the processor foresees: a real program is between the two. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/random.h"
#include "../core/registry.h"
#include "figure.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "shuffled", "shuffled|ordered", "", "the order of the walk"},
    {"kilobytes", KNOB_INT, "256", "1:65536", "kB", "memory that is walked"},
    {"other_cpu", KNOB_INT, "-1", "-1:1023", "",
     "where it is moved to; -1: each other CPU that it may use in turn"},
    {0},
};

enum { LINE = 64 };

struct line {
    uint64_t next, visits;
    char rest[LINE - 16];
};

struct own {
    struct line *lines;
    size_t count;
    int home;
    cpu_set_t others;
    int other;
    struct figure hot, migrate, cold_start;
};

/* A walk visits each line once: one cycle through all of them (Sattolo, 1986). */
static void lay_out(struct own *own, int shuffled) {
    struct random random;
    random_seed(&random, own->count, 0);
    for (size_t i = 0; i < own->count; i++)
        own->lines[i].next = shuffled ? i : (i + 1) % own->count;
    for (size_t i = own->count - 1; i > 0 && shuffled; i--) {
        size_t with = (size_t)(random_next(&random) % i);
        uint64_t next = own->lines[i].next;
        own->lines[i].next = own->lines[with].next;
        own->lines[with].next = next;
    }
}

/* The CPUs that it may be moved to. Its own mask names only its CPU; that of the process which started it
 * (it watches) was left alone. */
static int find_others(struct probe_end *me, struct own *own) {
    int only = (int)config_int(me->config, "other_cpu");
    if (sched_getaffinity(getppid(), sizeof(own->others), &own->others))
        return -errno;
    if (only >= 0) {
        int there = CPU_ISSET((size_t)only, &own->others);
        CPU_ZERO(&own->others);
        if (there)
            CPU_SET((size_t)only, &own->others);
    }
    CPU_CLR((size_t)own->home, &own->others);
    return CPU_COUNT(&own->others) ? 0 : -EINVAL;
}

static int open_end(struct probe_end *me) {
    struct own *own = me->own = calloc(1, sizeof(*own));
    if (!own)
        return -ENOMEM;
    own->home = own->other = probe_cpu();
    int rc = find_others(me, own);
    if (rc)
        return rc;
    own->count = (size_t)config_int(me->config, "kilobytes") * 1024 / LINE;
    own->lines = mmap(NULL, own->count * LINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own->lines == MAP_FAILED)
        return -ENOMEM;
    lay_out(own, config_is(me->config, "variant", "shuffled"));
    return 0;
}

/* Walks once. Gives the ns, or a negated errno. */
static int64_t walk(struct own *own) {
    int64_t start = clock_now();
    uint64_t at = 0, visits = own->lines[0].visits;
    for (size_t i = 0; i < own->count; i++) {
        own->lines[at].visits++;
        at = own->lines[at].next;
    }
    return at || own->lines[0].visits != visits + 1 ? -EPROTO : clock_now() - start;
}

static int move(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set))
        return -errno;
    return probe_cpu() == cpu ? 0 : -EIO;
}

static int next_of(const struct own *own) {
    int cpu = own->other;
    do
        cpu = (cpu + 1) % CPU_SETSIZE;
    while (!CPU_ISSET((size_t)cpu, &own->others));
    return cpu;
}

/* One unit. Gives the ns of the cold walk, or a negated errno. */
static int64_t away_and_back(struct own *own) {
    int64_t start = clock_now();
    int rc = move(own->other = next_of(own));
    int64_t moved = clock_now();
    int64_t cold = rc ? rc : walk(own), hot = cold < 0 ? cold : walk(own);
    rc = hot < 0 ? (int)hot : move(own->home);
    int64_t home = rc ? rc : walk(own);
    if (home < 0)
        return home;
    figure_add(&own->migrate, (double)(moved - start));
    figure_add(&own->hot, (double)hot);
    figure_add(&own->cold_start, (double)(cold - hot));
    return cold;
}

static int64_t work(struct probe_end *me, uint64_t count) {
    int64_t total = 0, took = 0;
    for (uint64_t i = 0; i < count && took >= 0; i++)
        total += took = away_and_back(me->own);
    return took < 0 ? took : total;
}

static void close_end(struct probe_end *me) {
    struct own *own = me->own;
    if (!own)
        return;
    figure_note(&own->hot, me, "hot_walk_ns");
    figure_note(&own->migrate, me, "migrate_ns");
    figure_note(&own->cold_start, me, "cold_start_ns");
    if (own->lines && own->lines != MAP_FAILED)
        munmap(own->lines, own->count * LINE);
    free(own);
}

static const struct probe_ops working_set = {
    .name = "working_set",
    .summary = "the first walk over an end's memory after it was moved to another CPU",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "first walk after a migration", .ends = 1},
    .open = open_end,
    .work = work,
    .close = close_end,
};
REGISTER_PROBE(working_set);
