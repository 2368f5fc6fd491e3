#define _GNU_SOURCE
#include "http_client.h"

#include "http_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_LIMIT = 65536, REQUEST_LIMIT = 16384 };

struct client {
    struct buffer request; /* written once */
    struct buffer rest;    /* of a request that is said: all behind its path */
    int head;
    int highest;     /* the highest status that is right */
    int64_t message; /* bytes of body in a reply of our own server */
};

int http_client_check(const struct config *config, char *message, size_t size) {
    const char *path = config_text(config, "path"), *host = config_text(config, "host");
    int wrong_path = *path != '/' || !http_text_plain(path);
    if (!wrong_path && http_text_plain(host) && strlen(path) + strlen(host) < REQUEST_LIMIT / 2)
        return 0;
    snprintf(message, size,
             "%s=%.64s: %s, without blanks and control characters, and both of at most %d bytes",
             wrong_path ? "path" : "host", wrong_path ? path : host,
             wrong_path ? "write it as /page" : "write it as name or name:port", REQUEST_LIMIT / 2);
    return -EINVAL;
}

static int put_all(struct buffer *out, const char *const *parts) {
    int rc = 0;
    for (; !rc && *parts; parts++)
        rc = buffer_put(out, *parts, strlen(*parts));
    return rc;
}

static int write_request(const struct config *config, struct client *client) {
    const char *method = config_text(config, "method"), *path = config_text(config, "path");
    const char *connection = config_is(config, "connection", "per_request") ? "\r\nConnection: close" : "";
    const char *rest[] = {" HTTP/1.1\r\nHost: ", config_text(config, "host"), connection, "\r\n\r\n", NULL};
    const char *first[] = {method, " ", path, NULL};
    int rc = put_all(&client->rest, rest);
    if (!rc)
        rc = put_all(&client->request, first);
    return rc ? rc : put_all(&client->request, rest);
}

int http_client_create(const struct config *config, uint64_t seed, void **out) {
    (void)seed;
    char message[256];
    int rc = http_client_check(config, message, sizeof(message));
    if (rc)
        return rc;
    struct client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->head = config_is(config, "method", "HEAD");
    client->highest = config_is(config, "status", "2xx")   ? 299
                      : config_is(config, "status", "3xx") ? 399
                                                           : 599;
    client->message = config_int(config, "message");
    buffer_init(&client->request, REQUEST_LIMIT);
    buffer_init(&client->rest, REQUEST_LIMIT);
    rc = write_request(config, client);
    if (rc)
        http_client_destroy(client);
    else
        *out = client;
    return rc;
}

void http_client_destroy(void *memory) {
    struct client *client = memory;
    buffer_free(&client->request);
    buffer_free(&client->rest);
    free(client);
}

int http_client_open(void *client, void *session) {
    (void)client, (void)session;
    return 0;
}

void http_client_close(void *client, void *session) {
    (void)client, (void)session;
}

int http_client_ask(void *memory, void *session_memory, struct random *random, struct buffer *out) {
    (void)random;
    struct client *client = memory;
    struct http_client_session *session = session_memory;
    *session = (struct http_client_session){.head = client->head, .length = -1};
    return buffer_put(out, buffer_data(&client->request), buffer_length(&client->request));
}

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static int take_status(struct http_client_session *session, struct http_text line) {
    const char *at = line.at;
    if (line.length < 12 || memcmp(at, "HTTP/1.", 7) || (at[7] != '0' && at[7] != '1') || at[8] != ' ' ||
        (line.length > 12 && at[12] != ' '))
        return -EPROTO;
    int64_t status;
    if (http_text_number((struct http_text){at + 9, 3}, 10, &status) || status < 100 || status > 599)
        return -EPROTO;
    session->status = (int)status;
    session->ends = at[7] == '0'; /* HTTP/1.0 closes unless it says otherwise */
    session->phase = HTTP_FIELDS;
    return 0;
}

static int take_length(struct http_client_session *session, struct http_text value) {
    int64_t length;
    int rc = http_text_number(value, 10, &length);
    if (rc)
        return rc;
    if (session->length >= 0 && session->length != length)
        return -EPROTO;
    session->length = length;
    return 0;
}

/* Only four fields matter; the rest are passed over by their first letter, because this runs for every line
 * of every reply. */
static int take_field(struct http_client_session *session, struct http_text line) {
    char first = (char)(*line.at | 0x20);
    if (first != 'c' && first != 't' && first != 's')
        return 0;
    struct http_text name, value;
    int rc = http_text_field(line, &name, &value);
    if (rc)
        return rc;
    if (http_text_is(name, "content-length"))
        return take_length(session, value);
    if (http_text_is(name, "connection"))
        session->ends =
            http_text_has(value, "close") || (session->ends && !http_text_has(value, "keep-alive"));
    else if (http_text_is(name, "transfer-encoding"))
        session->chunked = http_text_has(value, "chunked");
    else if (http_text_is(name, "server"))
        session->ours = http_text_is(value, HTTP_CLIENT_SERVER);
    return 0;
}

static int done(const struct client *client, const struct http_client_session *session) {
    int right = session->status >= 200 && session->status <= client->highest;
    if (right && session->ours && session->status == 200)
        right = session->length == client->message;
    return right ? 1 : -EBADMSG;
}

static int end_head(const struct client *client, struct http_client_session *session) {
    int status = session->status;
    if (status == 101) /* nobody asked for another protocol */
        return -EPROTO;
    if (status < 200) {
        *session = (struct http_client_session){.head = session->head, .length = -1};
        return 0;
    }
    if (session->head || status == 204 || status == 304)
        return done(client, session);
    session->left = session->length;
    if (session->chunked) {
        session->phase = HTTP_SIZE;
    } else if (session->length < 0) {
        session->phase = HTTP_REST;
        session->ends = 1;
    } else {
        session->phase = HTTP_BODY;
        return session->left ? 0 : done(client, session);
    }
    return 0;
}

static int take_size(struct http_client_session *session, struct http_text line) {
    const char *extension = memchr(line.at, ';', line.length);
    if (extension)
        line.length = (size_t)(extension - line.at);
    while (line.length && (line.at[line.length - 1] == ' ' || line.at[line.length - 1] == '\t'))
        line.length--;
    int rc = http_text_number(line, 16, &session->left);
    session->phase = session->left ? HTTP_CHUNK : HTTP_TRAILERS;
    return rc;
}

static int take_line(const struct client *client, struct http_client_session *session,
                     struct http_text line) {
    switch (session->phase) {
    case HTTP_STATUS:
        return take_status(session, line);
    case HTTP_FIELDS:
        return line.length ? take_field(session, line) : end_head(client, session);
    case HTTP_SIZE:
        return take_size(session, line);
    case HTTP_AFTER:
        session->taken = 0;
        session->phase = HTTP_SIZE;
        return line.length ? -EPROTO : 0;
    case HTTP_TRAILERS:
        return line.length ? 0 : done(client, session);
    default:
        return -EPROTO;
    }
}

/* Takes bytes that are content. 1 or -EBADMSG: the last of the reply. */
static int take_content(const struct client *client, struct http_client_session *session, size_t length,
                        size_t *used) {
    if (session->phase == HTTP_REST) {
        *used += length;
        return 0;
    }
    size_t piece = (int64_t)length < session->left ? length : (size_t)session->left;
    *used += piece;
    session->left -= (int64_t)piece;
    if (session->left)
        return 0;
    if (session->phase == HTTP_BODY)
        return done(client, session);
    session->phase = HTTP_AFTER;
    return 0;
}

int http_client_answer(void *memory, void *session_memory, const char *in, size_t length, size_t *used,
                       struct buffer *out) {
    (void)out;
    const struct client *client = memory;
    struct http_client_session *session = session_memory;
    int rc = 0;
    *used = 0;
    while (!rc && *used < length) {
        enum http_client_phase phase = session->phase;
        if (phase == HTTP_BODY || phase == HTTP_REST || phase == HTTP_CHUNK) {
            rc = take_content(client, session, length - *used, used);
            continue;
        }
        struct http_text line;
        size_t taken;
        rc = http_text_line(in + *used, length - *used, HEAD_LIMIT - session->taken, &line, &taken);
        if (rc <= 0)
            return rc ? -EPROTO : 0;
        *used += taken;
        session->taken += taken;
        rc = take_line(client, session, line);
    }
    return rc;
}

int http_client_finish(void *client, void *session_memory) {
    const struct http_client_session *session = session_memory;
    return session->phase == HTTP_REST ? done(client, session) : 0;
}

int http_client_ends(void *client, void *session_memory) {
    (void)client;
    return ((const struct http_client_session *)session_memory)->ends;
}

int http_client_say(void *memory, void *session_memory, const char *line, struct buffer *out) {
    const struct client *client = memory;
    struct http_client_session *session = session_memory;
    char method[16] = "GET";
    int skipped = 0;
    if (*line != '/' && (sscanf(line, "%15[A-Z] %n", method, &skipped) != 1 || !skipped))
        return -EINVAL;
    const char *first[] = {method, " ", line + skipped, NULL};
    if (line[skipped] != '/' || !http_text_plain(line + skipped))
        return -EINVAL;
    *session = (struct http_client_session){.head = !strcmp(method, "HEAD"), .length = -1};
    int rc = put_all(out, first);
    return rc ? rc : buffer_put(out, buffer_data(&client->rest), buffer_length(&client->rest));
}
