/* Burns or sleeps a demand drawn from a named distribution: the ruler that the instrument is checked against.
 *
 * Protocol: a line "work" is answered by a line "done <ns>", the demand that was drawn. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/distribution.h"
#include "../core/registry.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const struct knob knobs[] = {
    {"demand", KNOB_REAL, "0", "0:10", "s", "mean demand of a request"},
    {"demand_dist", KNOB_CHOICE, "constant", DISTRIBUTION_WORDS, "", "distribution of the demand"},
    {"demand_kind", KNOB_CHOICE, "burn", "burn|sleep", "", "burn processor time, or sleep"},
    {0},
};

enum { LINE_LIMIT = 64 };

static const char *const operations[] = {"work", NULL};

struct synthetic {
    double mean_ns;
    enum distribution_kind kind;
    int sleeps;
    _Atomic uint64_t sessions;
};

struct session {
    struct random random;
    int64_t demand;
    int bad;
};

static int create(const struct config *config, int threads, char *message, size_t size, void **service) {
    (void)threads, (void)message, (void)size;
    struct synthetic *synthetic = calloc(1, sizeof(*synthetic));
    if (!synthetic)
        return -ENOMEM;
    synthetic->mean_ns = config_real(config, "demand") * 1e9;
    synthetic->kind = distribution_named(config_text(config, "demand_dist"));
    synthetic->sleeps = config_is(config, "demand_kind", "sleep");
    *service = synthetic;
    return 0;
}

static int open_session(void *service, void *memory) {
    struct synthetic *synthetic = service;
    struct session *session = memory;
    random_seed(&session->random, 0x6b6e6565, atomic_fetch_add(&synthetic->sessions, 1));
    return 0;
}

static void close_session(void *service, void *memory) {
    (void)service, (void)memory;
}

static int parse(void *service, void *memory, const char *in, size_t length, size_t *used,
                 struct buffer *out) {
    (void)out;
    struct synthetic *synthetic = service;
    struct session *session = memory;
    const char *end = memchr(in, '\n', length);
    if ((end ? (size_t)(end - in) : length) > LINE_LIMIT)
        return -EPROTO;
    if (!end)
        return 0;
    *used = (size_t)(end - in) + 1;
    session->bad = *used < 5 || memcmp(in, "work", 4);
    session->demand =
        session->bad ? 0 : (int64_t)distribution_draw(synthetic->kind, synthetic->mean_ns, &session->random);
    return 1;
}

static uint32_t split(void *service, void *memory, uint32_t chunk) {
    (void)service, (void)memory, (void)chunk;
    return 1;
}

/* The arithmetic between two looks at the clock: short against any demand worth asking for. */
static void grind(void) {
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 150; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    __asm__ volatile("" ::"r"(x));
}

static void run(void *service, void *memory, uint32_t task, uint32_t chunk, struct counter_block *me) {
    (void)task, (void)chunk;
    struct synthetic *synthetic = service;
    struct session *session = memory;
    if (session->demand <= 0)
        return;
    COUNT(me, demand_ns, session->demand);
    if (synthetic->sleeps) {
        struct timespec until = clock_spec(clock_now() + session->demand);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
        return;
    }
    int64_t until = clock_thread() + session->demand;
    while (clock_thread() < until)
        grind();
}

static int reply(void *service, void *memory, struct buffer *out) {
    (void)service;
    struct session *session = memory;
    if (session->bad)
        return buffer_printf(out, "error: the only request is \"work\"\n");
    /* Not by printf, of whose pages a process that is forked for one request has none. */
    char text[32], *at = text + sizeof(text);
    uint64_t left = (uint64_t)session->demand;
    *--at = '\n';
    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    at -= 5;
    memcpy(at, "done ", 5);
    return buffer_put(out, at, (size_t)(text + sizeof(text) - at));
}

static int client_create(const struct config *config, uint64_t seed, void **client) {
    (void)config, (void)seed;
    *client = NULL;
    return 0;
}

static void client_destroy(void *client) {
    (void)client;
}

static int client_open(void *client, void *memory) {
    (void)client, (void)memory;
    return 0;
}

static int ask(void *client, void *memory, struct random *random, struct buffer *out) {
    (void)client, (void)memory, (void)random;
    return buffer_put(out, "work\n", 5);
}

static int answer(void *client, void *memory, const char *in, size_t length, size_t *used,
                  struct buffer *out) {
    (void)client, (void)memory, (void)out;
    const char *end = memchr(in, '\n', length);
    if ((end ? (size_t)(end - in) : length) > LINE_LIMIT)
        return -EPROTO;
    if (!end)
        return 0;
    *used = (size_t)(end - in) + 1;
    return *used > 6 && !memcmp(in, "done ", 5) ? 1 : -EBADMSG;
}

static int say(void *client, void *memory, const char *line, struct buffer *out) {
    (void)client, (void)memory;
    return buffer_line(out, line);
}

static const struct service_ops synthetic = {
    .name = "synthetic",
    .summary = "burns or sleeps a demand drawn from a named distribution",
    .knobs = knobs,
    .operations = operations,
    .max_request = LINE_LIMIT,
    .session_size = sizeof(struct session),
    .create = create,
    .destroy = free,
    .open = open_session,
    .close = close_session,
    .parse = parse,
    .split = split,
    .run = run,
    .reply = reply,
    .client_create = client_create,
    .client_destroy = client_destroy,
    .client_open = client_open,
    .client_close = close_session,
    .ask = ask,
    .answer = answer,
    .say = say,
};
REGISTER_SERVICE(synthetic);
