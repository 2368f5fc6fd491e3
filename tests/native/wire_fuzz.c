/* Both sides of the services under bytes that nobody meant: valid messages of HTTP and of the services' own,
 * spoilt at random. What a message comes to must not depend on the pieces in which it arrives, no look may go
 * behind a piece (each is a block of its own, for a sanitizer to see), and what our HTTP server sends must be
 * HTTP to our client.
 *
 *     wire_fuzz [CASES [SEED]]
 *
 * Links with all of pyx/csrc but the programs. Exit status 1, and one line for each failure. */
#define _GNU_SOURCE
#include "client_subject.h"
#include "core/counters.h"

enum { PIECES = 3, LONGEST = 65536 };

static struct random chance;

static size_t below(size_t bound) {
    return random_below(&chance, (uint32_t)bound);
}

static void put(struct buffer *out, const char *text) {
    if (buffer_put(out, text, strlen(text)))
        abort();
}

static void clear(struct buffer *buffer) {
    buffer_consume(buffer, buffer_length(buffer));
}

static void spoil_once(struct buffer *message) {
    static const char *const words[] = {
        "\r\n",         "\n", ":", " ", "0\r\n", "\r\n\r\n", "99999999999999999999",
        "HTTP/1.1 200", "-1", "",  ";", ",",     "chunked",  "Content-Length: 7\r\n"};
    size_t length = buffer_length(message), at = length ? below(length) : 0, size = length - at;
    char *bytes = message->bytes + message->start;
    struct buffer rest;
    buffer_init(&rest, LONGEST);
    size = size ? below(size < 20 ? size : 20) : 0;
    switch (below(5)) {
    case 0:
        if (length)
            bytes[at] = (char)random_next(&chance);
        break;
    case 1: /* leaves some out */
        memmove(bytes + at, bytes + at + size, length - at - size);
        message->end -= size;
        break;
    case 2: /* says some twice */
        buffer_put(&rest, bytes + at, length - at);
        message->end -= length - at - size;
        buffer_put(message, buffer_data(&rest), buffer_length(&rest));
        break;
    case 3: /* says something else in between */
        buffer_put(&rest, bytes + at, length - at);
        message->end -= length - at;
        put(message, words[below(sizeof(words) / sizeof(*words))]);
        buffer_put(message, buffer_data(&rest), buffer_length(&rest));
        break;
    default: /* ends early */
        message->end -= length - at;
    }
    buffer_free(&rest);
}

static void spoil(struct buffer *message) {
    for (size_t times = below(4); times; times--)
        spoil_once(message);
}

static void put_body(struct buffer *out, size_t length) {
    for (; length; length--) {
        char byte = (char)random_next(&chance);
        buffer_put(out, &byte, 1);
    }
}

static void put_fields(struct buffer *out) {
    static const char *const fields[] = {
        "Date: x\r\n",     "Connection: keep-alive\r\n", "connection: close\r\n", "X: a: b\r\n",
        "Set-Cookie:\r\n", "Server: nobody\n",           " folded further\r\n"};
    for (size_t count = below(4); count; count--)
        put(out, fields[below(sizeof(fields) / sizeof(*fields))]);
}

static void put_chunks(struct buffer *out) {
    for (size_t chunks = below(4); chunks; chunks--) {
        size_t length = 1 + below(40);
        buffer_printf(out, below(2) ? "%zx\r\n" : "%zX ;name=\"value\"\r\n", length);
        put_body(out, length);
        put(out, "\r\n");
    }
    put(out, below(2) ? "0\r\n\r\n" : "00\r\nTrailer: x\r\n\r\n");
}

/* A right reply; nonzero: it ends with the connection. */
static int http_reply(struct buffer *out) {
    size_t length = below(60), framing = below(3);
    if (!below(4))
        put(out, "HTTP/1.1 100 Continue\r\n\r\n");
    put(out, below(4) ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.0 299\r\n");
    put_fields(out);
    if (framing == 0)
        buffer_printf(out, "Content-Length:%zu\r\n\r\n", length);
    else
        put(out, framing == 1 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    if (framing == 1)
        put_chunks(out);
    else
        put_body(out, length);
    return framing == 2;
}

/* A reply in pieces of one size: what it came to, the connection's end included. */
static int hear(struct subject *client, const struct buffer *reply, size_t piece, size_t *taken) {
    random_seed(&client->random, 1, 1);
    ask(client);
    int rc = feed(client, buffer_data(reply), buffer_length(reply), piece, taken);
    if (!rc && client->ops->finish)
        rc = client->ops->finish(client->client, client->session);
    return rc;
}

/* The same outcome whatever the pieces; `expected` too, unless it is nonsense for a reply. */
static void try_reply(struct subject *client, const struct buffer *reply, int expected) {
    size_t sizes[PIECES] = {LONGEST, 1, 2 + below(30)}, taken[PIECES];
    int rc[PIECES];
    for (int i = 0; i < PIECES; i++)
        rc[i] = hear(client, reply, sizes[i], &taken[i]);
    for (int i = 1; i < PIECES; i++)
        check(rc[i] == rc[0] && (rc[0] == -EPROTO || taken[i] == taken[0]), "a reply in pieces",
              client->ops->name, rc[i]);
    check(rc[0] == 0 || rc[0] == 1 || rc[0] == -EBADMSG || rc[0] == -EPROTO, "status of a reply",
          client->ops->name, rc[0]);
    if (expected != INT32_MAX)
        check(rc[0] == expected && taken[0] == buffer_length(reply), "a right reply", client->ops->name,
              rc[0]);
}

struct served {
    const struct service_ops *ops;
    void *service;
    struct counter_block *me;
};

static void http_request(struct buffer *out) {
    static const char *const firsts[] = {"GET / HTTP/1.1\r\nHost: a\r\n", "HEAD / HTTP/1.1\r\nHost: a\r\n",
                                         "GET /?q HTTP/1.0\r\n", "GET /no HTTP/1.1\r\nhost:b\r\n",
                                         "POST / HTTP/1.1\r\nHost: a\r\n"};
    size_t content = below(3) ? 0 : below(50);
    if (!below(6))
        put(out, "\r\n");
    put(out, firsts[below(sizeof(firsts) / sizeof(*firsts))]);
    put_fields(out);
    if (content && !below(3))
        put(out, "Expect: 100-continue\r\n");
    if (content)
        buffer_printf(out, "Content-Length: %zu\r\n", content);
    put(out, "\r\n");
    put_body(out, content);
}

/* Parses what has come; 1: the connection ends. */
static int serve(const struct served *served, void *session, struct buffer *in, struct buffer *out) {
    const struct service_ops *ops = served->ops;
    size_t used = 1;
    while (used && buffer_length(in)) {
        size_t length = buffer_length(in);
        char *block = malloc(length);
        memcpy(block, buffer_data(in), length);
        used = 0;
        int rc = ops->parse(served->service, session, block, length, &used, out);
        free(block);
        check(used <= length, "bytes of a request", ops->name, (long)used);
        buffer_consume(in, used);
        if (rc == 1) {
            for (uint32_t task = 0; task < ops->split(served->service, session, 3); task++)
                ops->run(served->service, session, task, 3, served->me);
            rc = ops->reply(served->service, session, out);
        }
        if (rc)
            return 1;
    }
    return 0;
}

/* All that a connection gets for these bytes. */
static void converse(const struct served *served, const struct buffer *request, size_t piece,
                     struct buffer *out) {
    void *session = calloc(1, served->ops->session_size + 1);
    struct buffer in;
    buffer_init(&in, LONGEST);
    served->ops->open(served->service, session);
    size_t length = buffer_length(request), taken;
    for (size_t at = 0; at < length; at += taken) {
        taken = length - at < piece ? length - at : piece;
        buffer_put(&in, buffer_data(request) + at, taken);
        if (serve(served, session, &in, out))
            break;
    }
    served->ops->close(served->service, session);
    free(session);
    buffer_free(&in);
}

/* Whether the bytes are complete replies, one behind the other. */
static int is_http(struct subject *client, const struct buffer *replies) {
    struct buffer rest = *replies;
    int rc = 1;
    while (rc == 1 && buffer_length(&rest)) {
        size_t taken;
        ask(client);
        rc = feed(client, buffer_data(&rest), buffer_length(&rest), LONGEST, &taken);
        rest.start += taken;
    }
    static const char interim[] = "100 Continue\r\n\r\n";
    size_t length = buffer_length(replies), size = sizeof(interim) - 1;
    return rc == 1 || (!rc && length > size && !memcmp(replies->bytes + replies->end - size, interim, size));
}

/* The same replies whatever the pieces, where the service keeps nothing; client: who must understand them. */
static void try_request(const struct served *served, const struct buffer *request, int steady,
                        struct subject *client) {
    size_t sizes[PIECES] = {LONGEST, 1, 2 + below(30)};
    struct buffer out[PIECES];
    for (int i = 0; i < PIECES; i++) {
        buffer_init(&out[i], 1 << 26);
        converse(served, request, sizes[i], &out[i]);
        if (steady)
            check(buffer_length(&out[i]) == buffer_length(&out[0]) &&
                      (!buffer_length(&out[0]) ||
                       !memcmp(buffer_data(&out[i]), buffer_data(&out[0]), buffer_length(&out[0]))),
                  "a request in pieces", served->ops->name, (long)sizes[i]);
    }
    if (client && !memmem(buffer_data(request), buffer_length(request), "HEAD ", 5))
        check(is_http(client, &out[0]), "replies of our server",
              buffer_length(request) ? buffer_data(request) : "", 0);
    for (int i = 0; i < PIECES; i++)
        buffer_free(&out[i]);
}

/* One exchange between a client and our server: all that each of them sent. */
static void record(const struct served *served, struct subject *client, struct buffer *request,
                   struct buffer *reply) {
    void *session = calloc(1, served->ops->session_size + 1);
    struct buffer in, out;
    buffer_init(&in, LONGEST);
    buffer_init(&out, LONGEST);
    served->ops->open(served->service, session);
    random_seed(&client->random, 1, 1);
    ask(client);
    int rc = 0;
    size_t taken = 0;
    while (!rc && buffer_length(&client->asked)) {
        buffer_put(request, buffer_data(&client->asked), buffer_length(&client->asked));
        buffer_put(&in, buffer_data(&client->asked), buffer_length(&client->asked));
        clear(&client->asked);
        serve(served, session, &in, &out);
        rc = feed(client, buffer_data(&out), buffer_length(&out), LONGEST, &taken);
        buffer_put(reply, buffer_data(&out), buffer_length(&out));
        clear(&out);
    }
    check(rc == 1, "a service's own reply", served->ops->name, rc);
    served->ops->close(served->service, session);
    free(session);
    buffer_free(&in);
    buffer_free(&out);
}

struct fuzzed {
    const char *name;
    const char *settings[2][2];
    int steady; /* the same request always gets the same reply */
};

static void fuzz_service(const struct fuzzed *fuzzed, size_t cases) {
    struct subject client;
    struct served served = {.ops = registry_service(fuzzed->name)};
    struct counters *counters = aligned_alloc(_Alignof(struct counters), counters_size());
    struct buffer request, reply, message;
    char text[512] = "";
    begin(&client, fuzzed->name, (const char *const(*)[2])fuzzed->settings, fuzzed->settings[1][0] ? 2 : 1);
    memset(counters, 0, counters_size());
    served.me = counters_claim(counters, ROLE_WORKER);
    if (served.ops->create(client.config, 1, text, sizeof(text), &served.service))
        abort();
    buffer_init(&request, LONGEST);
    buffer_init(&reply, LONGEST);
    buffer_init(&message, LONGEST);
    record(&served, &client, &request, &reply);
    for (size_t i = 0; i < cases; i++) {
        clear(&message);
        buffer_put(&message, buffer_data(&reply), buffer_length(&reply));
        spoil(&message);
        try_reply(&client, &message, INT32_MAX);
        clear(&message);
        for (size_t times = 1 + below(3); times; times--)
            buffer_put(&message, buffer_data(&request), buffer_length(&request));
        spoil(&message);
        try_request(&served, &message, fuzzed->steady, NULL);
    }
    buffer_free(&request);
    buffer_free(&reply);
    buffer_free(&message);
    served.ops->destroy(served.service);
    end(&client);
    free(counters);
}

static void fuzz_http(size_t cases) {
    static const char *const any[][2] = {{"status", "any"}};
    struct subject client;
    struct served served = {.ops = registry_service("http")};
    struct buffer message;
    char text[512] = "";
    begin(&client, "http", any, 1);
    if (served.ops->create(client.config, 1, text, sizeof(text), &served.service))
        abort();
    buffer_init(&message, LONGEST);
    for (size_t i = 0; i < cases; i++) {
        clear(&message);
        http_reply(&message);
        try_reply(&client, &message, 1);
        spoil(&message);
        try_reply(&client, &message, INT32_MAX);
        clear(&message);
        for (size_t times = 1 + below(3); times; times--)
            http_request(&message);
        spoil(&message);
        try_request(&served, &message, 1, &client);
    }
    buffer_free(&message);
    served.ops->destroy(served.service);
    end(&client);
}

int main(int count, char **words) {
    static const struct fuzzed services[] = {
        {"prime", {{"array", "5"}, {"bits", "8"}}, 1},
        {"echo", {{"message", "12"}}, 0},
        {"stock", {{"mix", "show"}, {"stocks", "5"}}, 0},
        {"stock", {{"mix", "buy"}, {"stocks", "5"}}, 0},
        {"stock", {{"mix", "show"}, {"dialect", "padded"}}, 0},
    };
    size_t cases = count > 1 ? (size_t)atol(words[1]) : 20000;
    random_seed(&chance, count > 2 ? (uint64_t)atol(words[2]) : 1, 1);
    fuzz_http(cases);
    for (size_t i = 0; i < sizeof(services) / sizeof(*services); i++)
        fuzz_service(&services[i], cases / 20);
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
