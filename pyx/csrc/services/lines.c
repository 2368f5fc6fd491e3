/* Asks any server whose requests and replies are lines of text, such as redis with its inline commands. A
 * client side only: there is nothing to serve.
 *
 * A reply is complete after `reply_lines` lines, and right when its first one begins as `expect` says. */
#define _GNU_SOURCE
#include "../core/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct knob knobs[] = {
    {"request", KNOB_TEXT, "PING", "text; \\n \\r \\t \\\\ and \\x41 are read", "",
     "what is sent; a newline is added where it does not end in one"},
    {"reply_lines", KNOB_INT, "1", "1:100000", "lines", "lines of a complete reply"},
    {"expect", KNOB_TEXT, "", "text; empty: anything", "",
     "what the first line of a right reply begins with"},
    {0},
};

static const char *const operations[] = {"request", NULL};

enum { REQUEST_LIMIT = 1 << 20, LINE_LIMIT = 1 << 20 };

struct client {
    struct buffer request, expect;
    long reply_lines;
};

struct session {
    long lines; /* of the reply that came */
    int wrong;
};

static int hex_digit(char letter) {
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    letter |= 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -EINVAL;
}

/* Takes one escape behind its backslash and moves *at behind it. The byte, or -EINVAL. */
static int read_escape(const char **at) {
    char letter = *(*at)++;
    if (letter == 'n')
        return '\n';
    if (letter == 'r')
        return '\r';
    if (letter == 't')
        return '\t';
    if (letter == '\\')
        return '\\';
    int high = letter == 'x' ? hex_digit(**at) : -EINVAL, low = high < 0 ? high : hex_digit((*at)[1]);
    if (low < 0)
        return -EINVAL;
    *at += 2;
    return high * 16 + low;
}

/* Appends a text with its escapes read, all or nothing; -EINVAL when one of them is none. */
static int read_text(const char *at, struct buffer *out) {
    size_t before = buffer_length(out);
    int rc = 0;
    while (!rc && *at) {
        int byte = (unsigned char)*at++;
        if (byte == '\\')
            byte = read_escape(&at);
        char written = (char)byte;
        rc = byte < 0 ? byte : buffer_put(out, &written, 1);
    }
    if (rc)
        out->end = out->start + before;
    return rc;
}

static int read_request(const char *text, struct buffer *out) {
    int rc = read_text(text, out);
    if (!rc && (!buffer_length(out) || out->bytes[out->end - 1] != '\n'))
        rc = buffer_put(out, "\n", 1);
    return rc;
}

static void client_destroy(void *memory) {
    struct client *client = memory;
    buffer_free(&client->request);
    buffer_free(&client->expect);
    free(client);
}

static int client_create(const struct config *config, uint64_t seed, void **out) {
    (void)seed;
    struct client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    buffer_init(&client->request, REQUEST_LIMIT);
    buffer_init(&client->expect, LINE_LIMIT);
    client->reply_lines = config_int(config, "reply_lines");
    int rc = read_request(config_text(config, "request"), &client->request);
    if (!rc)
        rc = read_text(config_text(config, "expect"), &client->expect);
    if (rc)
        client_destroy(client);
    else
        *out = client;
    return rc;
}

static int client_check(const struct config *config, char *message, size_t size) {
    static const char *const names[] = {"request", "expect"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct buffer read;
        buffer_init(&read, REQUEST_LIMIT);
        int rc = read_text(config_text(config, names[i]), &read);
        buffer_free(&read);
        if (!rc)
            continue;
        snprintf(message, size, "%s=%.64s: a backslash stands before n, r, t, x41 or another backslash",
                 names[i], config_text(config, names[i]));
        return -EINVAL;
    }
    return 0;
}

static int client_open(void *client, void *session) {
    (void)client, (void)session;
    return 0;
}

static void client_close(void *client, void *session) {
    (void)client, (void)session;
}

static int ask(void *memory, void *session, struct random *random, struct buffer *out) {
    (void)random;
    struct client *client = memory;
    *(struct session *)session = (struct session){0};
    return buffer_put(out, buffer_data(&client->request), buffer_length(&client->request));
}

static int answer(void *memory, void *session_memory, const char *in, size_t length, size_t *used,
                  struct buffer *out) {
    (void)out;
    const struct client *client = memory;
    struct session *session = session_memory;
    size_t expected = buffer_length(&client->expect);
    *used = 0;
    while (*used < length) {
        const char *line = in + *used, *end = memchr(line, '\n', length - *used);
        size_t whole = end ? (size_t)(end - line) : length - *used;
        if (whole > LINE_LIMIT)
            return -EPROTO;
        if (!end)
            return 0;
        if (!session->lines && expected)
            session->wrong = whole < expected || memcmp(line, buffer_data(&client->expect), expected) != 0;
        *used += whole + 1;
        if (++session->lines == client->reply_lines)
            return session->wrong ? -EBADMSG : 1;
    }
    return 0;
}

static int say(void *client, void *session, const char *line, struct buffer *out) {
    (void)client;
    *(struct session *)session = (struct session){0};
    return read_request(line, out);
}

static const struct service_ops lines = {
    .name = "lines",
    .summary = "asks any server whose requests and replies are lines; a client side only",
    .knobs = knobs,
    .operations = operations,
    .client_session_size = sizeof(struct session),
    .client_check = client_check,
    .client_create = client_create,
    .client_destroy = client_destroy,
    .client_open = client_open,
    .client_close = client_close,
    .ask = ask,
    .answer = answer,
    .say = say,
};
REGISTER_SERVICE(lines);
