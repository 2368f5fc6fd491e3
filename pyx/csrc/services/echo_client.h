/* The client side of the echo service: texts of letters, and replies checked for shape, text and address.
 *
 * The functions are those of the client side in core/service.h. */
#ifndef KNEEPOINT_ECHO_CLIENT_H
#define KNEEPOINT_ECHO_CLIENT_H

#include "../core/buffer.h"
#include "../core/config.h"
#include "../core/random.h"
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

enum { ECHO_LIMIT = 65536 };      /* bytes of a text */
#define ECHO_BEFORE " message : " /* what stands between the date and the text */

struct echo_client_session {
    size_t first;  /* where the text begins in the client's pool */
    int said;      /* the text is a person's: the reply is only awaited */
    char tail[64]; /* what must follow the text; empty while the session's own address is not known */
};

int echo_client_create(const struct config *config, uint64_t seed, void **client);
void echo_client_destroy(void *client);
int echo_client_open(void *client, void *session);
void echo_client_close(void *client, void *session);
void echo_client_address(void *client, void *session, const struct sockaddr_in *address);
int echo_client_ask(void *client, void *session, struct random *random, struct buffer *out);
int echo_client_answer(void *client, void *session, const char *in, size_t length, size_t *used,
                       struct buffer *out);
int echo_client_say(void *client, void *session, const char *line, struct buffer *out);

#endif
