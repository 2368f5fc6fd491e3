/* A service whose parser looks behind its bytes when a request begins with "bug": what fuzzing must find, in
 * a service that nothing else knows of. */
#include "core/registry.h"

#include <string.h>

static const struct knob knobs[] = {{0}};
static const char *const operations[] = {"ask", NULL};

static int create(const struct config *config, int threads, char *message, size_t size, void **service) {
    (void)config, (void)threads, (void)message, (void)size;
    *service = NULL;
    return 0;
}

static void nothing(void *service) {
    (void)service;
}

static int open_session(void *service, void *session) {
    (void)service, (void)session;
    return 0;
}

static void close_session(void *service, void *session) {
    (void)service, (void)session;
}

static int parse(void *service, void *session, const char *in, size_t length, size_t *used,
                 struct buffer *out) {
    (void)service, (void)session, (void)out;
    *used = length;
    return length >= 3 && in[0] == 'b' && in[1] == 'u' && in[2] == 'g' && in[length] == '!';
}

static uint32_t split(void *service, void *session, uint32_t chunk) {
    (void)service, (void)session, (void)chunk;
    return 1;
}

static void run(void *service, void *session, uint32_t task, uint32_t chunk, struct counter_block *me) {
    (void)service, (void)session, (void)task, (void)chunk, (void)me;
}

static int reply(void *service, void *session, struct buffer *out) {
    (void)service, (void)session, (void)out;
    return 1;
}

static const struct service_ops faulty = {
    .name = "faulty",
    .summary = "reads a byte too many",
    .knobs = knobs,
    .operations = operations,
    .max_request = 16,
    .create = create,
    .destroy = nothing,
    .open = open_session,
    .close = close_session,
    .parse = parse,
    .split = split,
    .run = run,
    .reply = reply,
};
REGISTER_SERVICE(faulty);
