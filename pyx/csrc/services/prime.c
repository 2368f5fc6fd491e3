/* Says which numbers of an array are prime, by trial division: work that splits into pieces of any size.
 *
 * Protocol, all numbers in network order: the client sends a 4-byte count N; the server acknowledges at once
 * with the same 4 bytes; the client sends N 4-byte unsigned numbers; the server answers N bytes of 0 or 1 in
 * the same order. */
#define _GNU_SOURCE
#include "../core/registry.h"
#include "division.h"
#include "prime_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct knob knobs[] = {
    {"array", KNOB_INT, "50", "1:1000000", "numbers", "numbers in a request"},
    {"bits", KNOB_INT, "31", "1:32", "bits",
     "numbers are drawn from 0 to 2^bits - 1, which decides the demand"},
    {0},
};

static const char *const operations[] = {"test", NULL};

enum { COUNT_SIZE = 4, COUNT_LIMIT = 1000000 };

struct session {
    uint32_t count;    /* numbers of the request under way; 0 before its count came */
    uint32_t capacity; /* numbers that the two arrays have room for */
    size_t received;   /* bytes of them */
    uint32_t *numbers; /* as they came, in network order */
    unsigned char *answers;
};

static int create(const struct config *config, int threads, char *message, size_t size, void **service) {
    (void)config, (void)threads, (void)message, (void)size;
    struct division *division;
    int rc = division_create(1, &division);
    if (!rc)
        *service = division;
    return rc;
}

static void destroy(void *service) {
    division_destroy(service);
}

static int open_session(void *service, void *memory) {
    (void)service, (void)memory;
    return 0;
}

static void close_session(void *service, void *memory) {
    (void)service;
    struct session *session = memory;
    free(session->numbers);
    free(session->answers);
}

/* Old contents are not kept: a new request overwrites them. */
static int make_room(struct session *session, uint32_t count) {
    if (count <= session->capacity)
        return 0;
    free(session->numbers);
    free(session->answers);
    session->capacity = 0;
    session->numbers = malloc(count * sizeof(*session->numbers));
    session->answers = malloc(count);
    if (!session->numbers || !session->answers)
        return -ENOMEM;
    session->capacity = count;
    return 0;
}

static int parse_count(struct session *session, const char *in, struct buffer *out) {
    uint32_t count;
    memcpy(&count, in, COUNT_SIZE);
    count = ntohl(count);
    if (count == 0 || count > COUNT_LIMIT)
        return -EPROTO;
    int rc = make_room(session, count);
    if (!rc)
        rc = buffer_put(out, in, COUNT_SIZE);
    if (rc)
        return rc;
    session->count = count;
    session->received = 0;
    return 0;
}

static int parse(void *service, void *memory, const char *in, size_t length, size_t *used,
                 struct buffer *out) {
    (void)service;
    struct session *session = memory;
    *used = 0;
    if (!session->count) {
        if (length < COUNT_SIZE)
            return 0;
        *used = COUNT_SIZE;
        return parse_count(session, in, out);
    }
    size_t wanted = session->count * sizeof(*session->numbers) - session->received;
    *used = length < wanted ? length : wanted;
    memcpy((char *)session->numbers + session->received, in, *used);
    session->received += *used;
    return *used == wanted;
}

static uint32_t split(void *service, void *memory, uint32_t chunk) {
    (void)service;
    const struct session *session = memory;
    return (session->count - 1) / chunk + 1;
}

static void run(void *service, void *memory, uint32_t task, uint32_t chunk, struct counter_block *me) {
    (void)me;
    struct session *session = memory;
    uint64_t first = (uint64_t)task * chunk, end = first + chunk;
    if (end > session->count)
        end = session->count;
    for (uint64_t i = first; i < end; i++)
        session->answers[i] = (unsigned char)division_is_prime(service, ntohl(session->numbers[i]));
}

static int reply(void *service, void *memory, struct buffer *out) {
    (void)service;
    struct session *session = memory;
    uint32_t count = session->count;
    session->count = 0;
    return buffer_put(out, session->answers, count);
}

static const struct service_ops prime = {
    .name = "prime",
    .summary = "tests an array of numbers for primality by trial division",
    .knobs = knobs,
    .operations = operations,
    .max_request = COUNT_SIZE, /* the numbers leave the input buffer as they come */
    .session_size = sizeof(struct session),
    .create = create,
    .destroy = destroy,
    .open = open_session,
    .close = close_session,
    .parse = parse,
    .split = split,
    .run = run,
    .reply = reply,
    .client_session_size = sizeof(struct prime_client_session),
    .client_create = prime_client_create,
    .client_destroy = prime_client_destroy,
    .client_open = prime_client_open,
    .client_close = prime_client_close,
    .ask = prime_client_ask,
    .answer = prime_client_answer,
    .say = prime_client_say,
    .show = prime_client_show,
};
REGISTER_SERVICE(prime);
