#define _GNU_SOURCE
#include "echo_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 65536, LINE_LIMIT = ECHO_LIMIT + 256 };

struct client {
    size_t length;                /* of a text */
    char pool[POOL + ECHO_LIMIT]; /* letters; a text is a window of it */
};

int echo_client_create(const struct config *config, uint64_t seed, void **out) {
    struct client *client = malloc(sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->length = (size_t)config_int(config, "message");
    struct random random;
    random_seed(&random, seed, 0x6563686f);
    for (size_t i = 0; i < sizeof(client->pool); i++)
        client->pool[i] = (char)('a' + random_below(&random, 26));
    *out = client;
    return 0;
}

void echo_client_destroy(void *client) {
    free(client);
}

int echo_client_open(void *client, void *session) {
    (void)client, (void)session;
    return 0;
}

void echo_client_close(void *client, void *session) {
    (void)client, (void)session;
}

void echo_client_address(void *client, void *session_memory, const struct sockaddr_in *address) {
    (void)client;
    struct echo_client_session *session = session_memory;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
    snprintf(session->tail, sizeof(session->tail), " port : %u address : %s", ntohs(address->sin_port), text);
}

int echo_client_ask(void *memory, void *session_memory, struct random *random, struct buffer *out) {
    const struct client *client = memory;
    struct echo_client_session *session = session_memory;
    session->said = 0;
    session->first = random_below(random, POOL);
    int rc = buffer_reserve(out, client->length + 1);
    if (!rc)
        rc = buffer_put(out, client->pool + session->first, client->length);
    return rc ? rc : buffer_put(out, "\n", 1);
}

/* Bytes of a date at the front of the line, in the angle brackets that some servers put around it or without;
 * 0: there is none. */
static size_t date_length(const char *line, size_t length) {
    static const char shape[] = "0000-00-00 00:00:00";
    size_t open = length && *line == '<', size = sizeof(shape) - 1;
    if (length < size + 2 * open || (open && line[1 + size] != '>'))
        return 0;
    for (size_t i = 0; i < size; i++) {
        char byte = line[open + i];
        if (shape[i] == '0' ? byte < '0' || byte > '9' : byte != shape[i])
            return 0;
    }
    return size + 2 * open;
}

static int is_tail(const struct echo_client_session *session, const char *tail, size_t length) {
    if (*session->tail)
        return strlen(session->tail) == length && !memcmp(tail, session->tail, length);
    static const char before[] = " port : ";
    return length > sizeof(before) && !memcmp(tail, before, sizeof(before) - 1);
}

static int is_right(const struct client *client, const struct echo_client_session *session, const char *line,
                    size_t length) {
    size_t at = date_length(line, length), before = strlen(ECHO_BEFORE);
    if (!at || length - at < before + client->length || memcmp(line + at, ECHO_BEFORE, before) != 0)
        return 0;
    at += before;
    if (memcmp(line + at, client->pool + session->first, client->length) != 0)
        return 0;
    at += client->length;
    return is_tail(session, line + at, length - at);
}

int echo_client_answer(void *memory, void *session_memory, const char *in, size_t length, size_t *used,
                       struct buffer *out) {
    (void)out;
    const struct echo_client_session *session = session_memory;
    const char *end = memchr(in, '\n', length);
    *used = 0;
    if ((end ? (size_t)(end - in) : length) > LINE_LIMIT)
        return -EPROTO;
    if (!end)
        return 0;
    *used = (size_t)(end - in) + 1;
    return session->said || is_right(memory, session, in, (size_t)(end - in)) ? 1 : -EBADMSG;
}

int echo_client_say(void *client, void *session, const char *line, struct buffer *out) {
    (void)client;
    ((struct echo_client_session *)session)->said = 1;
    return buffer_line(out, line);
}
