/* The client side of the prime service: asks about random numbers whose answers it knows by another method.
 *
 * The functions are those of the client side in core/service.h. */
#ifndef KNEEPOINT_PRIME_CLIENT_H
#define KNEEPOINT_PRIME_CLIENT_H

#include "../core/buffer.h"
#include "../core/config.h"
#include "../core/random.h"
#include <stddef.h>
#include <stdint.h>

struct prime_client_session {
    uint32_t first; /* where the request's numbers begin in the client's pool */
    uint32_t taken; /* answers that came */
    int acknowledged;
    int wrong;
    uint32_t *said; /* numbers that a person asks about, as they are sent; NULL: the pool's */
    uint32_t count; /* of them */
};

int prime_client_create(const struct config *config, uint64_t seed, void **client);
void prime_client_destroy(void *client);
int prime_client_open(void *client, void *session);
void prime_client_close(void *client, void *session);
int prime_client_ask(void *client, void *session, struct random *random, struct buffer *out);
int prime_client_answer(void *client, void *session, const char *in, size_t length, size_t *used,
                        struct buffer *out);
int prime_client_say(void *client, void *session, const char *line, struct buffer *out);
int prime_client_show(void *client, void *session, const char *reply, size_t length, struct buffer *out);

#endif
