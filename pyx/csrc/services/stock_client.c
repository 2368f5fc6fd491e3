#define _GNU_SOURCE
#include "stock_client.h"

#include "stock_rows.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_LIMIT = 512, AMOUNTS = 10 };

const char *const stock_client_operations[] = {"show", "buy", "sell", NULL};

struct tally {
    _Atomic int64_t bought, sold;
};

struct client {
    int padded;
    int known; /* the rows are the server's; else the file could not be read and they are a guess */
    size_t count;
    struct stock_row *rows;
    struct tally *tally;
    double weights[STOCK_OPERATIONS], weight;
};

static int find_operation(const char *name, size_t length) {
    for (int i = 0; i < STOCK_OPERATIONS; i++)
        if (strlen(stock_client_operations[i]) == length && !memcmp(stock_client_operations[i], name, length))
            return i;
    return -EINVAL;
}

int stock_client_mix(const char *text, double *weights) {
    double sum = 0;
    for (int i = 0; i < STOCK_OPERATIONS; i++)
        weights[i] = 0;
    for (;;) {
        size_t length = strcspn(text, ":,");
        int operation = find_operation(text, length);
        double weight = 1;
        text += length;
        if (*text == ':') {
            char *end;
            weight = strtod(text + 1, &end);
            if (end == text + 1)
                return -EINVAL;
            text = end;
        }
        if (operation < 0 || !isfinite(weight) || weight < 0)
            return -EINVAL;
        weights[operation] += weight;
        sum += weight;
        if (!*text)
            return sum > 0 && isfinite(sum) ? 0 : -EINVAL;
        if (*text++ != ',')
            return -EINVAL;
    }
}

/* Without the server's file: the ids that a generated table has. Prices and their order are not known. */
static int guess_rows(const struct config *config, struct client *client) {
    client->count = (size_t)config_int(config, "stocks");
    client->rows = calloc(client->count, sizeof(*client->rows));
    for (size_t i = 0; client->rows && i < client->count; i++)
        client->rows[i].id = (int64_t)i + 1;
    return client->rows ? 0 : -ENOMEM;
}

int stock_client_create(const struct config *config, uint64_t seed, void **out) {
    (void)seed;
    char message[512];
    struct client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    int rc = stock_client_mix(config_text(config, "mix"), client->weights);
    for (int i = 0; i < STOCK_OPERATIONS; i++)
        client->weight += client->weights[i];
    client->padded = config_is(config, "dialect", "padded");
    if (!rc) {
        client->known = !stock_rows_get(config, message, sizeof(message), &client->rows, &client->count);
        rc = client->known ? 0 : guess_rows(config, client);
    }
    if (!rc) {
        client->tally = calloc(client->count, sizeof(*client->tally));
        rc = client->tally ? 0 : -ENOMEM;
    }
    if (rc)
        stock_client_destroy(client);
    else
        *out = client;
    return rc;
}

void stock_client_destroy(void *memory) {
    struct client *client = memory;
    free(client->rows);
    free(client->tally);
    free(client);
}

int stock_client_open(void *client, void *session) {
    (void)client, (void)session;
    return 0;
}

void stock_client_close(void *client, void *session) {
    (void)client, (void)session;
}

/* An operation of weight 0 is never drawn, also where rounding would let the draw pass the last weight. */
static enum stock_operation draw_operation(const struct client *client, struct random *random) {
    double at = random_unit(random) * client->weight;
    int drawn = 0;
    for (int i = 0; i < STOCK_OPERATIONS; i++) {
        if (client->weights[i] <= 0)
            continue;
        drawn = i;
        if (at < client->weights[i])
            break;
        at -= client->weights[i];
    }
    return (enum stock_operation)drawn;
}

int stock_client_ask(void *memory, void *session_memory, struct random *random, struct buffer *out) {
    struct client *client = memory;
    struct stock_client_session *session = session_memory;
    *session = (struct stock_client_session){.operation = draw_operation(client, random)};
    int rc;
    if (session->operation == STOCK_SHOW) {
        rc = buffer_put(out, "show\n", 5);
    } else {
        session->stock = random_below(random, client->count);
        session->amount = 1 + (int64_t)random_below(random, AMOUNTS);
        rc = buffer_printf(out, "%s %lld %lld\n", stock_client_operations[session->operation],
                           (long long)client->rows[session->stock].id, (long long)session->amount);
    }
    return rc ? rc : (int)session->operation;
}

static int equals(const char *line, size_t length, const char *text) {
    return strlen(text) == length && !memcmp(line, text, length);
}

static void take_row(const struct client *client, struct stock_client_session *session, const char *line,
                     size_t length) {
    struct stock_row row;
    size_t i = session->rows++;
    if (stock_rows_take(line, length, &row))
        session->wrong = 1;
    else if (client->known)
        session->wrong |=
            i >= client->count || row.id != client->rows[i].id || row.price != client->rows[i].price;
}

static int end_show(const struct client *client, struct stock_client_session *session) {
    session->wrong |= client->known ? session->rows != client->count : !session->rows;
    return 1;
}

/* Takes a line of the reply, without its newline. 1: it was the last one. In the padded dialect a show has no
 * last line: it ends where the padding begins. */
static int take_line(struct client *client, struct stock_client_session *session, const char *line,
                     size_t length) {
    if (session->operation == STOCK_SHOW) {
        if (!length && !client->padded)
            return end_show(client, session);
        if (!session->rows && length >= 5 && !memcmp(line, "error", 5)) {
            session->wrong = 1;
            return 1;
        }
        take_row(client, session, line, length);
        return 0;
    }
    struct tally *tally = &client->tally[session->stock];
    if (session->operation == STOCK_BUY && equals(line, length, "[buy] success"))
        atomic_fetch_add_explicit(&tally->bought, session->amount, memory_order_relaxed);
    else if (session->operation == STOCK_SELL && equals(line, length, "[sell] success"))
        atomic_fetch_add_explicit(&tally->sold, session->amount, memory_order_relaxed);
    else if (session->operation != STOCK_BUY || !equals(line, length, "Not enough left stock"))
        session->wrong = 1;
    return 1;
}

/* The lines of a padded reply: its text, then zeros to the end. */
static void take_padded(struct client *client, struct stock_client_session *session, const char *in) {
    size_t length = strnlen(in, STOCK_PADDED_SIZE), at = 0;
    int done = 0;
    while (at < length && !done) {
        const char *end = memchr(in + at, '\n', length - at);
        if (!end)
            break;
        done = take_line(client, session, in + at, (size_t)(end - in) - at);
        at = (size_t)(end - in) + 1;
    }
    if (!done && session->operation == STOCK_SHOW)
        done = end_show(client, session);
    static const char zeros[STOCK_PADDED_SIZE];
    session->wrong |= !done || at != length || length == STOCK_PADDED_SIZE ||
                      memcmp(in + length, zeros, STOCK_PADDED_SIZE - length) != 0;
}

int stock_client_answer(void *memory, void *session_memory, const char *in, size_t length, size_t *used,
                        struct buffer *out) {
    (void)out;
    struct client *client = memory;
    struct stock_client_session *session = session_memory;
    *used = 0;
    if (client->padded) {
        if (length < STOCK_PADDED_SIZE)
            return 0;
        take_padded(client, session, in);
        *used = STOCK_PADDED_SIZE;
        return session->wrong ? -EBADMSG : 1;
    }
    while (*used < length) {
        const char *line = in + *used, *end = memchr(line, '\n', length - *used);
        if (!end)
            return length - *used > LINE_LIMIT ? -EPROTO : 0;
        *used += (size_t)(end - line) + 1;
        if (take_line(client, session, line, (size_t)(end - line)))
            return session->wrong ? -EBADMSG : 1;
    }
    return 0;
}

size_t stock_client_ledger(void *memory, int64_t (*rows)[3], size_t capacity) {
    struct client *client = memory;
    size_t count = client->count < capacity ? client->count : capacity;
    for (size_t i = 0; i < count; i++) {
        rows[i][0] = client->rows[i].id;
        rows[i][1] = atomic_load(&client->tally[i].bought);
        rows[i][2] = atomic_load(&client->tally[i].sold);
    }
    return count;
}
