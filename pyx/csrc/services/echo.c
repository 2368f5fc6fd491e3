/* Returns what it got, with the time and the address it came from.
 *
 * Protocol: a line of text is answered by the line "YYYY-mm-dd HH:MM:SS message : TEXT port : CLIENT PORT
 * address : CLIENT ADDRESS". A line longer than 65536 bytes is answered by one that begins with "error: ". */
#define _GNU_SOURCE
#include "../core/registry.h"
#include "echo_client.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct knob knobs[] = {
    {"message", KNOB_INT, "16", "1:65536", "bytes", "length of the text that clients send"},
    {0},
};

static const char *const operations[] = {"echo", NULL};

enum { DATE_SIZE = 20, TAIL_SIZE = 64 };

struct session {
    struct buffer text;   /* of the request */
    int skipping;         /* inside a line that is too long */
    int too_long;         /* the request was */
    time_t second;        /* that `date` is about */
    char date[DATE_SIZE]; /* "YYYY-mm-dd HH:MM:SS" */
    char tail[TAIL_SIZE]; /* of every reply: the peer's port and address */
};

static int create(const struct config *config, int threads, char *message, size_t size, void **service) {
    (void)config, (void)threads, (void)message, (void)size;
    tzset(); /* or each process of a server that forks reads the time zone's file for itself */
    *service = NULL;
    return 0;
}

static void destroy(void *service) {
    (void)service;
}

static void set_peer(void *service, void *memory, const struct sockaddr_in *address) {
    (void)service;
    struct session *session = memory;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text));
    snprintf(session->tail, sizeof(session->tail), " port : %u address : %s\n", ntohs(address->sin_port),
             text);
}

static int open_session(void *service, void *memory) {
    struct session *session = memory;
    static const struct sockaddr_in nowhere = {.sin_family = AF_INET};
    buffer_init(&session->text, ECHO_LIMIT);
    session->second = -1;
    set_peer(service, session, &nowhere);
    return 0;
}

static void close_session(void *service, void *memory) {
    (void)service;
    buffer_free(&((struct session *)memory)->text);
}

static int parse(void *service, void *memory, const char *in, size_t length, size_t *used,
                 struct buffer *out) {
    (void)service, (void)out;
    struct session *session = memory;
    const char *end = memchr(in, '\n', length);
    size_t line = end ? (size_t)(end - in) : length;
    *used = 0;
    session->too_long = session->skipping || line > ECHO_LIMIT;
    if (session->too_long) {
        session->skipping = !end;
        *used = line + (end != NULL);
        return end != NULL;
    }
    if (!end)
        return 0;
    *used = line + 1;
    if (line && in[line - 1] == '\r')
        line--;
    int rc = buffer_put(&session->text, in, line);
    return rc ? rc : 1;
}

static uint32_t split(void *service, void *memory, uint32_t chunk) {
    (void)service, (void)memory, (void)chunk;
    return 1;
}

/* Brings the date up to the second, which is all that a reply costs but copying. */
static void run(void *service, void *memory, uint32_t task, uint32_t chunk, struct counter_block *me) {
    (void)service, (void)task, (void)chunk, (void)me;
    struct session *session = memory;
    time_t now = time(NULL);
    struct tm local;
    if (now == session->second || !localtime_r(&now, &local))
        return;
    session->second = now;
    strftime(session->date, sizeof(session->date), "%Y-%m-%d %H:%M:%S", &local);
}

static int reply(void *service, void *memory, struct buffer *out) {
    (void)service;
    struct session *session = memory;
    if (session->too_long)
        return buffer_line(out, "error: a line is longer than 65536 bytes");
    size_t length = buffer_length(&session->text), tail = strlen(session->tail);
    int rc = buffer_put(out, session->date, strlen(session->date));
    if (!rc)
        rc = buffer_put(out, ECHO_BEFORE, strlen(ECHO_BEFORE));
    if (!rc && length)
        rc = buffer_put(out, buffer_data(&session->text), length);
    if (!rc)
        rc = buffer_put(out, session->tail, tail);
    buffer_free(&session->text); /* an idle connection holds none */
    return rc;
}

static const struct service_ops echo = {
    .name = "echo",
    .summary = "returns what it got, with the time and the client's address",
    .knobs = knobs,
    .operations = operations,
    .max_request = ECHO_LIMIT + 2,
    .session_size = sizeof(struct session),
    .create = create,
    .destroy = destroy,
    .open = open_session,
    .close = close_session,
    .peer = set_peer,
    .parse = parse,
    .split = split,
    .run = run,
    .reply = reply,
    .client_session_size = sizeof(struct echo_client_session),
    .client_create = echo_client_create,
    .client_destroy = echo_client_destroy,
    .client_open = echo_client_open,
    .client_close = echo_client_close,
    .client_address = echo_client_address,
    .ask = echo_client_ask,
    .answer = echo_client_answer,
    .say = echo_client_say,
};
REGISTER_SERVICE(echo);
