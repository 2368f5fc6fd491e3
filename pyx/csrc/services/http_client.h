/* The client side of the http service: one request, again and again, to any server that speaks HTTP/1.1 or
 * 1.0, and its replies in every framing that those have.
 *
 * The functions are those of the client side in core/service.h. A reply is right when the knob `status`
 * allows its status; one that names kneepoint as its server must have a body of `message` bytes, too. */
#ifndef KNEEPOINT_HTTP_CLIENT_H
#define KNEEPOINT_HTTP_CLIENT_H

#include "../core/buffer.h"
#include "../core/config.h"
#include "../core/random.h"
#include <stddef.h>
#include <stdint.h>

#define HTTP_CLIENT_SERVER "kneepoint" /* how our own server names itself in the field Server */

/* What the next bytes of a reply are. */
enum http_client_phase {
    HTTP_STATUS,
    HTTP_FIELDS,
    HTTP_BODY,     /* of known length */
    HTTP_REST,     /* a body that ends with the connection */
    HTTP_SIZE,     /* the line before a chunk */
    HTTP_CHUNK,    /* the bytes of one */
    HTTP_AFTER,    /* the line end behind them */
    HTTP_TRAILERS, /* fields behind the last chunk */
};

struct http_client_session {
    enum http_client_phase phase;
    int head;       /* the request was a HEAD: its reply has no body */
    int status;     /* of the reply; 0 before it came */
    int ends;       /* the server closes the connection behind the reply */
    int ours;       /* the reply comes from our own server */
    int chunked;    /* the body comes in chunks */
    size_t taken;   /* bytes of the head, or of the line at hand */
    int64_t length; /* of the body, as announced; -1: not announced */
    int64_t left;   /* bytes of the body or chunk still to come */
};

int http_client_check(const struct config *config, char *message, size_t size);
int http_client_create(const struct config *config, uint64_t seed, void **client);
void http_client_destroy(void *client);
int http_client_open(void *client, void *session);
void http_client_close(void *client, void *session);
int http_client_ask(void *client, void *session, struct random *random, struct buffer *out);
int http_client_answer(void *client, void *session, const char *in, size_t length, size_t *used,
                       struct buffer *out);
int http_client_finish(void *client, void *session);
int http_client_ends(void *client, void *session);
int http_client_say(void *client, void *session, const char *line, struct buffer *out);

#endif
