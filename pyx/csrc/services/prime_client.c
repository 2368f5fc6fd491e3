/* Requests are windows of one pool of random numbers, held as they are sent, so that asking and checking cost
 * the generator a copy and a comparison. The pool's answers come from a test that shares nothing with the
 * server's. */
#define _GNU_SOURCE
#include "prime_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 65536, COUNT_SIZE = 4, COUNT_LIMIT = 1000000 };

struct client {
    uint32_t count;         /* numbers in a request */
    uint32_t numbers[POOL]; /* in network order */
    unsigned char answers[POOL];
};

static uint32_t power(uint64_t base, uint32_t exponent, uint32_t modulus) {
    uint64_t result = 1;
    for (base %= modulus; exponent; exponent >>= 1, base = base * base % modulus)
        if (exponent & 1)
            result = result * base % modulus;
    return (uint32_t)result;
}

/* Nonzero when an odd number = d·2^s + 1 is a strong probable prime to the base. */
static int passes(uint32_t number, uint32_t base, uint32_t d, int s) {
    uint64_t x = power(base, d, number);
    if (x == 1 || x == number - 1)
        return 1;
    for (int i = 1; i < s; i++) {
        x = x * x % number;
        if (x == number - 1)
            return 1;
    }
    return 0;
}

/* Miller and Rabin's test; the bases 2, 7 and 61 decide every number below 4,759,123,141 (Jaeschke, 1993). */
static unsigned char is_prime(uint32_t number) {
    static const uint32_t small[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61};
    if (number < 2)
        return 0;
    for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
        if (number % small[i] == 0)
            return number == small[i];
    uint32_t d = number - 1;
    int s = 0;
    for (; d % 2 == 0; d /= 2)
        s++;
    return passes(number, 2, d, s) && passes(number, 7, d, s) && passes(number, 61, d, s);
}

int prime_client_create(const struct config *config, uint64_t seed, void **out) {
    struct client *client = malloc(sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->count = (uint32_t)config_int(config, "array");
    int unused = 64 - (int)config_int(config, "bits");
    struct random random;
    random_seed(&random, seed, 0x7072696d65);
    for (size_t i = 0; i < POOL; i++) {
        uint32_t number = (uint32_t)(random_next(&random) >> unused);
        client->numbers[i] = htonl(number);
        client->answers[i] = is_prime(number);
    }
    *out = client;
    return 0;
}

void prime_client_destroy(void *client) {
    free(client);
}

int prime_client_open(void *client, void *session) {
    (void)client, (void)session;
    return 0;
}

void prime_client_close(void *client, void *session) {
    (void)client;
    free(((struct prime_client_session *)session)->said);
}

int prime_client_ask(void *memory, void *session_memory, struct random *random, struct buffer *out) {
    struct client *client = memory;
    struct prime_client_session *session = session_memory;
    free(session->said);
    *session = (struct prime_client_session){.first = (uint32_t)random_below(random, POOL)};
    uint32_t count = htonl(client->count);
    return buffer_put(out, &count, COUNT_SIZE);
}

/* How far the run of the pool that holds the request's i-th number reaches, at most up to the request's end.
 */
static uint32_t reach(const struct client *client, uint32_t at, uint32_t i) {
    uint32_t left = client->count - i, behind = POOL - at;
    return left < behind ? left : behind;
}

static int send_numbers(const struct client *client, uint32_t first, struct buffer *out) {
    int rc = buffer_reserve(out, client->count * sizeof(*client->numbers));
    for (uint32_t i = 0, length; !rc && i < client->count; i += length) {
        uint32_t at = (first + i) % POOL;
        length = reach(client, at, i);
        rc = buffer_put(out, client->numbers + at, length * sizeof(*client->numbers));
    }
    return rc;
}

static int take_acknowledgement(const struct client *client, struct prime_client_session *session,
                                const char *in, struct buffer *out) {
    uint32_t count;
    memcpy(&count, in, COUNT_SIZE);
    if (ntohl(count) != (session->said ? session->count : client->count))
        return -EPROTO;
    session->acknowledged = 1;
    if (session->said)
        return buffer_put(out, session->said, session->count * sizeof(*session->said));
    return send_numbers(client, session->first, out);
}

int prime_client_answer(void *memory, void *session_memory, const char *in, size_t length, size_t *used,
                        struct buffer *out) {
    struct client *client = memory;
    struct prime_client_session *session = session_memory;
    *used = 0;
    if (!session->acknowledged) {
        if (length < COUNT_SIZE)
            return 0;
        *used = COUNT_SIZE;
        return take_acknowledgement(client, session, in, out);
    }
    if (session->said) {
        uint32_t left = session->count - session->taken;
        *used = length < left ? length : left;
        session->taken += (uint32_t)*used;
        return session->taken == session->count;
    }
    while (*used < length && session->taken < client->count) {
        uint32_t at = (session->first + session->taken) % POOL;
        size_t piece = reach(client, at, session->taken);
        if (piece > length - *used)
            piece = length - *used;
        session->wrong |= memcmp(client->answers + at, in + *used, piece) != 0;
        session->taken += (uint32_t)piece;
        *used += piece;
    }
    if (session->taken < client->count)
        return 0;
    return session->wrong ? -EBADMSG : 1;
}

/* The numbers of a line, blanks or commas between them; how many, or -EINVAL. */
static long read_numbers(const char *line, uint32_t *numbers) {
    long count = 0;
    for (;;) {
        line += strspn(line, " \t,");
        if (!*line)
            return count ? count : -EINVAL;
        char *end;
        errno = 0;
        unsigned long long number = strtoull(line, &end, 10);
        if (*line < '0' || *line > '9' || errno || number > UINT32_MAX || (*end && !strchr(" \t,", *end)))
            return -EINVAL;
        numbers[count++] = htonl((uint32_t)number);
        line = end;
    }
}

int prime_client_say(void *memory, void *session_memory, const char *line, struct buffer *out) {
    (void)memory;
    struct prime_client_session *session = session_memory;
    uint32_t *numbers = malloc((strlen(line) / 2 + 1) * sizeof(*numbers));
    if (!numbers)
        return -ENOMEM;
    long count = read_numbers(line, numbers);
    if (count < 0 || count > COUNT_LIMIT) {
        free(numbers);
        return -EINVAL;
    }
    free(session->said);
    *session = (struct prime_client_session){.said = numbers, .count = (uint32_t)count};
    uint32_t wire = htonl(session->count);
    return buffer_put(out, &wire, COUNT_SIZE);
}

int prime_client_show(void *client, void *session_memory, const char *reply, size_t length,
                      struct buffer *out) {
    (void)client;
    const struct prime_client_session *session = session_memory;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < session->count && COUNT_SIZE + i < length; i++) {
        unsigned answer = (unsigned char)reply[COUNT_SIZE + i];
        uint32_t number = ntohl(session->said[i]);
        rc = answer > 1 ? buffer_printf(out, "%u: answered by the byte %u\n", number, answer)
                        : buffer_printf(out, "%u is %s\n", number, answer ? "prime" : "not prime");
    }
    return rc;
}
