/* The client side of the stock service: orders by a weighted mix, checks every reply, and keeps a ledger of
 * what it bought and sold. Where the server is not ours, its table is learnt from the first show, which is
 * then asked for before all else, whatever the mix.
 *
 * The functions are those of the client side in core/service.h. */
#ifndef KNEEPOINT_STOCK_CLIENT_H
#define KNEEPOINT_STOCK_CLIENT_H

#include "../core/buffer.h"
#include "../core/config.h"
#include "../core/random.h"
#include "stock_rows.h"
#include <stddef.h>
#include <stdint.h>

enum { STOCK_PADDED_SIZE = 8192 }; /* bytes of every reply in the padded dialect */

/* Numbers of the operations. */
enum stock_operation { STOCK_SHOW, STOCK_BUY, STOCK_SELL, STOCK_OPERATIONS };

struct stock_client_session {
    enum stock_operation operation;
    int wrong;
    int said;     /* the command is a person's: the reply is only awaited */
    size_t stock; /* position of the stock that a buy or sell is about */
    size_t rows;  /* of a show, so far */
    int64_t amount;
    struct stock_row *learnt; /* the rows of a show, while the table is not known; NULL: none */
    size_t room;              /* rows that `learnt` has room for */
};

/* Reads a mix such as "show:1,buy:2"; a name alone weighs 1. weights gets one for each operation. -EINVAL
 * when it cannot be read or nothing has a weight. */
int stock_client_mix(const char *text, double *weights);

int stock_client_create(const struct config *config, uint64_t seed, void **client);
void stock_client_destroy(void *client);
int stock_client_open(void *client, void *session);
void stock_client_close(void *client, void *session);
int stock_client_ask(void *client, void *session, struct random *random, struct buffer *out);
int stock_client_answer(void *client, void *session, const char *in, size_t length, size_t *used,
                        struct buffer *out);
int stock_client_say(void *client, void *session, const char *line, struct buffer *out);
int stock_client_show(void *client, void *session, const char *reply, size_t length, struct buffer *out);
size_t stock_client_ledger(void *client, int64_t (*rows)[3], size_t capacity);

extern const char *const stock_client_operations[];

#endif
