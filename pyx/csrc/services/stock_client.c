#define _GNU_SOURCE
#include "stock_client.h"

#include "stock_orders.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_LIMIT = 512, AMOUNTS = 10, LEARNT_LIMIT = 100000 };

const char *const stock_client_operations[] = {"show", "buy", "sell", NULL};

struct client {
    int padded, accounts;
    int known; /* the table is that of our own server, so that a show can be checked against it */
    struct stock_orders *_Atomic orders; /* NULL: not learnt yet */
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

/* The table of our own server; one that cannot be read here is learnt as anybody's is. */
static int know_rows(const struct config *config, struct client *client) {
    char message[512];
    struct stock_row *rows;
    size_t count;
    struct stock_orders *orders;
    if (config_is(config, "outside", "yes") ||
        stock_rows_get(config, message, sizeof(message), &rows, &count))
        return 0;
    int rc = stock_orders_create(rows, count, &orders);
    if (rc)
        return rc;
    atomic_init(&client->orders, orders);
    client->known = 1;
    return 0;
}

int stock_client_create(const struct config *config, uint64_t seed, void **out) {
    (void)seed;
    struct client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    int rc = stock_client_mix(config_text(config, "mix"), client->weights);
    for (int i = 0; i < STOCK_OPERATIONS; i++)
        client->weight += client->weights[i];
    client->padded = config_is(config, "dialect", "padded");
    client->accounts = config_is(config, "accounts", "on");
    if (!rc)
        rc = know_rows(config, client);
    if (rc)
        stock_client_destroy(client);
    else
        *out = client;
    return rc;
}

void stock_client_destroy(void *memory) {
    struct client *client = memory;
    stock_orders_destroy(atomic_load(&client->orders));
    free(client);
}

int stock_client_open(void *client, void *session) {
    (void)client, (void)session;
    return 0;
}

void stock_client_close(void *client, void *session) {
    (void)client;
    free(((struct stock_client_session *)session)->learnt);
}

static struct stock_orders *orders_of(struct client *client) {
    return atomic_load_explicit(&client->orders, memory_order_acquire);
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
    const struct stock_orders *orders = orders_of(client);
    free(session->learnt);
    *session =
        (struct stock_client_session){.operation = orders ? draw_operation(client, random) : STOCK_SHOW};
    int rc;
    if (session->operation == STOCK_SHOW) {
        rc = buffer_put(out, "show\n", 5);
    } else {
        session->stock = random_below(random, orders->count);
        session->amount = 1 + (int64_t)random_below(random, AMOUNTS);
        rc = buffer_printf(out, "%s %lld %lld\n", stock_client_operations[session->operation],
                           (long long)orders->rows[session->stock].id, (long long)session->amount);
    }
    return rc ? rc : (int)session->operation;
}

static int equals(const char *line, size_t length, const char *text) {
    return strlen(text) == length && !memcmp(line, text, length);
}

/* What a buy that is in order may be answered instead of success. */
static int is_refusal(const struct client *client, const char *line, size_t length) {
    return equals(line, length, "Not enough left stock") ||
           (client->accounts && equals(line, length, "Not enough funds"));
}

static void learn(struct stock_client_session *session, const struct stock_row *row) {
    size_t i = session->rows - 1;
    if (i >= session->room) {
        size_t room = session->room ? 2 * session->room : 64;
        struct stock_row *rows = i < LEARNT_LIMIT ? realloc(session->learnt, room * sizeof(*rows)) : NULL;
        session->wrong |= !rows;
        if (!rows)
            return;
        session->learnt = rows;
        session->room = room;
    }
    session->learnt[i] = *row;
}

static void take_row(struct client *client, struct stock_client_session *session, const char *line,
                     size_t length) {
    struct stock_row row;
    const struct stock_orders *orders = orders_of(client);
    size_t i = session->rows++;
    if (session->wrong || stock_rows_take(line, length, &row))
        session->wrong = 1;
    else if (client->known)
        session->wrong |=
            i >= orders->count || row.id != orders->rows[i].id || row.price != orders->rows[i].price;
    else if (!orders)
        learn(session, &row);
}

/* The first table learnt stays. */
static void publish(struct client *client, struct stock_client_session *session) {
    struct stock_orders *orders, *none = NULL;
    int rc = stock_orders_create(session->learnt, session->rows, &orders);
    session->learnt = NULL;
    if (!rc && !atomic_compare_exchange_strong(&client->orders, &none, orders))
        stock_orders_destroy(orders);
}

static int end_show(struct client *client, struct stock_client_session *session) {
    session->wrong |= client->known ? session->rows != orders_of(client)->count : !session->rows;
    if (session->learnt && !session->wrong)
        publish(client, session);
    return 1;
}

/* Takes a line of the reply, without its newline. 1: it was the last one. In the padded dialect a show has no
 * last line: it ends where the padding begins. */
static int take_line(struct client *client, struct stock_client_session *session, const char *line,
                     size_t length) {
    if (session->said)
        return session->operation != STOCK_SHOW || !length || (length >= 5 && !memcmp(line, "error", 5));
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
    struct stock_tally *tally = &orders_of(client)->tally[session->stock];
    if (session->operation == STOCK_BUY && equals(line, length, "[buy] success"))
        atomic_fetch_add_explicit(&tally->bought, session->amount, memory_order_relaxed);
    else if (session->operation == STOCK_SELL && equals(line, length, "[sell] success"))
        atomic_fetch_add_explicit(&tally->sold, session->amount, memory_order_relaxed);
    else if (session->operation != STOCK_BUY || !is_refusal(client, line, length))
        session->wrong = 1;
    return 1;
}

/* The lines of a padded reply: its text, then zeros to the end. Of anybody's reply only the text counts: many
 * a lab server sends what its buffer held before, behind one zero. */
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
                      (client->known && memcmp(in + length, zeros, STOCK_PADDED_SIZE - length) != 0);
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
        if (!session->said)
            take_padded(client, session, in);
        *used = STOCK_PADDED_SIZE;
        return session->wrong ? -EBADMSG : 1;
    }
    while (*used < length) {
        const char *line = in + *used, *end = memchr(line, '\n', length - *used);
        if ((end ? (size_t)(end - line) : length - *used) > LINE_LIMIT)
            return -EPROTO;
        if (!end)
            return 0;
        *used += (size_t)(end - line) + 1;
        if (take_line(client, session, line, (size_t)(end - line)))
            return session->wrong ? -EBADMSG : 1;
    }
    return 0;
}

int stock_client_say(void *client, void *session_memory, const char *line, struct buffer *out) {
    (void)client;
    struct stock_client_session *session = session_memory;
    size_t blanks = strspn(line, " \t"), length = strcspn(line + blanks, " \t\r");
    int operation = find_operation(line + blanks, length);
    free(session->learnt);
    /* Any other word is answered by one line, as a buy is. */
    *session = (struct stock_client_session){.operation = operation < 0 ? STOCK_BUY : operation, .said = 1};
    return buffer_line(out, line);
}

/* Without the padding, or the empty line, behind the text. */
int stock_client_show(void *memory, void *session, const char *reply, size_t length, struct buffer *out) {
    (void)session;
    const struct client *client = memory;
    if (client->padded)
        length = strnlen(reply, length);
    else if (length > 1 && reply[length - 2] == '\n')
        length--;
    return buffer_put(out, reply, length);
}

size_t stock_client_ledger(void *memory, int64_t (*rows)[3], size_t capacity) {
    struct client *client = memory;
    const struct stock_orders *orders = orders_of(client);
    size_t count = !orders ? 0 : orders->count < capacity ? orders->count : capacity;
    for (size_t i = 0; i < count; i++) {
        rows[i][0] = orders->rows[i].id;
        rows[i][1] = atomic_load(&orders->tally[i].bought);
        rows[i][2] = atomic_load(&orders->tally[i].sold);
    }
    return count;
}
