/* Shows, buys and sells stocks: short work on shared data under locks.
 *
 * Protocol: one text line each of "show", "buy ID N", "sell ID N", "exit". A bad line is answered by one line
 * that begins with "error: ", and the connection stays. In the dialect `line`, replies end in a newline and a
 * show in an empty line; in `padded`, every reply is filled with zeros to 8192 bytes, and zeros before a
 * request are skipped.
 *
 * With accounts=on, every connection has funds of its own, which "funds" shows: a buy is paid from them and a
 * sell into them. They end with the connection. */
#define _GNU_SOURCE
#include "../core/registry.h"
#include "stock_client.h"
#include "stock_presence.h"
#include "stock_rows.h"
#include "stock_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct knob knobs[] = {
    {"stocks", KNOB_INT, "20", "1:100000", "stocks", "size of the generated table"},
    {"table", KNOB_TEXT, "", "path of a file of lines <id> <left> <price>; empty: generated", "",
     "stocks to serve, written back when the last client leaves and at the end"},
    {"lock", KNOB_CHOICE, "mutex", "readers_writers|rwlock|mutex|global|seqlock|none", "",
     "for each stock: by semaphores (as published), pthread's readers-writers lock, a mutex, a sequence "
     "lock, none; or one mutex over all"},
    {"unsafe", KNOB_CHOICE, "no", "no|yes", "",
     "let threads that work at the same time do without a lock, and lose orders"},
    {"index", KNOB_CHOICE, "balanced", "bst|balanced|hash|array", "",
     "over the ids: a search tree as inserted or balanced, a hash table, a sorted array"},
    {"accounts", KNOB_CHOICE, "off", "off|on", "",
     "on: a connection pays for what it buys from funds of its own, and is paid for what it sells"},
    {"funds", KNOB_INT, "1000000", "0:1000000000000000", "", "what every connection begins with"},
    {"dialect", KNOB_CHOICE, "line", "line|padded", "", "replies end by a line, or fill 8192 bytes"},
    {"mix", KNOB_TEXT, "show:1,buy:1,sell:1", "operation:weight pairs of show, buy and sell", "",
     "how often clients ask for each operation"},
    {0},
};

enum { LINE_LIMIT = 256, SHOW_LIMIT = 8 << 20, SHOW_KEPT = 1 << 16 };

struct stock_service {
    struct stock_table *table;
    struct stock_presence *presence;
    int padded, accounts;
    int64_t funds; /* that a session begins with */
    void (*complain)(const char *line);
};

enum request { BAD, SHOW, BUY, SELL, FUNDS, EXIT };

struct session {
    enum request request;
    int skipping; /* inside a line that is too long */
    const char *error;
    int64_t id, amount, funds;
    enum stock_outcome outcome;
    int failure; /* of the show, as a negated errno */
    struct buffer show;
};

static const char commands[] = "error: the commands are show, buy ID N, sell ID N and exit\n";
static const char more_commands[] = "error: the commands are show, buy ID N, sell ID N, funds and exit\n";
static const char not_a_number[] = "error: ID and N are whole numbers, not negative\n";
static const char too_large[] = "error: a number is larger than 9223372036854775807\n";
static const char too_long[] = "error: a line is longer than 256 bytes\n";

static int confine(struct stock_service *stock, char *message, size_t size) {
    size_t needed;
    int rc = stock_table_confine(stock->table, STOCK_PADDED_SIZE - 1, &needed);
    if (!rc)
        return 0;
    snprintf(message, size,
             "dialect=padded: a show takes %zu bytes, more than the %d that fit; use fewer stocks", needed,
             STOCK_PADDED_SIZE - 1);
    return -EINVAL;
}

static int make(const struct config *config, int threads, char *message, size_t size,
                struct stock_service *stock) {
    int processes = config_is(config, "processes", "yes") ? threads : 0;
    int rc = stock_table_create(config, threads, message, size, &stock->table);
    if (!rc)
        rc = stock_presence_create(processes, &stock->presence);
    stock->padded = config_is(config, "dialect", "padded");
    stock->accounts = config_is(config, "accounts", "on");
    stock->funds = config_int(config, "funds");
    return rc || !stock->padded ? rc : confine(stock, message, size);
}

static void destroy(void *service) {
    struct stock_service *stock = service;
    if (stock->presence)
        stock_presence_destroy(stock->presence);
    if (stock->table)
        stock_table_destroy(stock->table);
    free(stock);
}

static int create(const struct config *config, int threads, char *message, size_t size, void **service) {
    double weights[STOCK_OPERATIONS];
    if (stock_client_mix(config_text(config, "mix"), weights)) {
        snprintf(message, size, "mix=%.64s: not operation:weight pairs such as show:1,buy:2,sell:1",
                 config_text(config, "mix"));
        return -EINVAL;
    }
    struct stock_service *stock = calloc(1, sizeof(*stock));
    if (!stock)
        return -ENOMEM;
    int rc = make(config, threads, message, size, stock);
    if (rc)
        destroy(stock);
    else
        *service = stock;
    return rc;
}

static void complain_to(void *service, void (*complain)(const char *line)) {
    ((struct stock_service *)service)->complain = complain;
}

static int save(void *service) {
    struct stock_service *stock = service;
    return stock_table_save(stock->table, 1, stock->complain);
}

static int open_session(void *service, void *memory) {
    struct stock_service *stock = service;
    struct session *session = memory;
    buffer_init(&session->show, SHOW_LIMIT);
    session->funds = stock->funds;
    stock_presence_enter(stock->presence);
    return 0;
}

static void close_session(void *service, void *memory) {
    struct stock_service *stock = service;
    struct session *session = memory;
    buffer_free(&session->show);
    if (stock_presence_leave(stock->presence))
        stock_table_save(stock->table, 0, stock->complain);
}

static void lost(void *service, int pid) {
    struct stock_service *stock = service;
    if (stock_presence_lost(stock->presence, pid))
        stock_table_save(stock->table, 0, stock->complain);
}

/* The next word of the line, its length 0 at the end. */
static const char *next_word(const char **at, const char *end, size_t *length) {
    while (*at < end && (**at == ' ' || **at == '\t'))
        ++*at;
    const char *word = *at;
    while (*at < end && **at != ' ' && **at != '\t')
        ++*at;
    *length = (size_t)(*at - word);
    return word;
}

static int is_word(const char *word, size_t length, const char *text) {
    return strlen(text) == length && !memcmp(word, text, length);
}

/* NULL, or what is wrong with the number. */
static const char *read_number(const char **at, const char *end, int64_t *number) {
    size_t length;
    const char *word = next_word(at, end, &length);
    int rc = stock_rows_number(&word, *at, number);
    return word != *at || rc == -EINVAL ? not_a_number : rc ? too_large : NULL;
}

static int has_words(const char *at, const char *end) {
    size_t length;
    next_word(&at, end, &length);
    return length != 0;
}

static void read_command(const struct stock_service *stock, struct session *session, const char *line,
                         size_t length) {
    const char *end = line + length, *usage = stock->accounts ? more_commands : commands;
    if (length && end[-1] == '\r')
        end--;
    const char *word = next_word(&line, end, &length);
    session->error = NULL;
    session->request = is_word(word, length, "show")                       ? SHOW
                       : is_word(word, length, "buy")                      ? BUY
                       : is_word(word, length, "sell")                     ? SELL
                       : is_word(word, length, "exit")                     ? EXIT
                       : stock->accounts && is_word(word, length, "funds") ? FUNDS
                                                                           : BAD;
    if (session->request == BAD)
        session->error = usage;
    if (session->request == BUY || session->request == SELL) {
        session->error = has_words(line, end) ? read_number(&line, end, &session->id) : usage;
        if (!session->error)
            session->error = has_words(line, end) ? read_number(&line, end, &session->amount) : usage;
    }
    if (!session->error && has_words(line, end))
        session->error = usage;
    if (session->error)
        session->request = BAD;
}

static int parse(void *service, void *memory, const char *in, size_t length, size_t *used,
                 struct buffer *out) {
    (void)out;
    struct session *session = memory;
    size_t start = 0;
    while (!session->skipping && start < length && !in[start])
        start++;
    const char *line = in + start, *end = memchr(line, '\n', length - start);
    size_t line_length = end ? (size_t)(end - line) : length - start;
    if (session->skipping || line_length > LINE_LIMIT) {
        session->skipping = !end;
        session->request = BAD;
        session->error = too_long;
        *used = start + line_length + (end != NULL);
        return end != NULL;
    }
    if (!end) {
        *used = start;
        return 0;
    }
    read_command(service, session, line, line_length);
    *used = start + line_length + 1;
    return 1;
}

static uint32_t split(void *service, void *memory, uint32_t chunk) {
    (void)service, (void)memory, (void)chunk;
    return 1;
}

static void run(void *service, void *memory, uint32_t task, uint32_t chunk, struct counter_block *me) {
    (void)task, (void)chunk;
    struct stock_service *stock = service;
    struct session *session = memory;
    int64_t *funds = stock->accounts ? &session->funds : NULL;
    if (session->request == SHOW)
        session->failure = stock_table_show(stock->table, &session->show, me);
    else if (session->request == BUY)
        session->outcome = stock_table_buy(stock->table, session->id, session->amount, funds, me);
    else if (session->request == SELL)
        session->outcome = stock_table_sell(stock->table, session->id, session->amount, funds, me);
}

static int put(const struct stock_service *stock, struct buffer *out, const char *text, size_t length) {
    int rc = buffer_put(out, text, length);
    if (rc || !stock->padded)
        return rc;
    rc = buffer_reserve(out, STOCK_PADDED_SIZE - length);
    if (rc)
        return rc;
    memset(out->bytes + out->end, 0, STOCK_PADDED_SIZE - length);
    out->end += STOCK_PADDED_SIZE - length;
    return 0;
}

static int reply_show(const struct stock_service *stock, struct session *session, struct buffer *out) {
    int rc = session->failure;
    if (!rc && !stock->padded)
        rc = buffer_put(&session->show, "\n", 1);
    if (!rc)
        rc = put(stock, out, buffer_data(&session->show), buffer_length(&session->show));
    buffer_consume(&session->show, buffer_length(&session->show));
    if (session->show.capacity > SHOW_KEPT)
        buffer_free(&session->show);
    return rc;
}

static int reply_order(const struct stock_service *stock, const struct session *session, struct buffer *out) {
    char text[128];
    long long id = session->id;
    int length = 0;
    switch (session->outcome) {
    case STOCK_DONE:
        length = snprintf(text, sizeof(text), "[%s] success\n", session->request == BUY ? "buy" : "sell");
        break;
    case STOCK_SHORT:
        length = snprintf(text, sizeof(text), "Not enough left stock\n");
        break;
    case STOCK_UNKNOWN:
        length = snprintf(text, sizeof(text), "error: there is no stock %lld\n", id);
        break;
    case STOCK_FULL:
        length = snprintf(text, sizeof(text), "error: stock %lld cannot hold so many more\n", id);
        break;
    case STOCK_POOR:
        length = snprintf(text, sizeof(text), "Not enough funds\n");
        break;
    case STOCK_RICH:
        length = snprintf(text, sizeof(text), "error: the funds cannot hold so much more\n");
        break;
    }
    return put(stock, out, text, (size_t)length);
}

static int reply_funds(const struct stock_service *stock, const struct session *session, struct buffer *out) {
    char text[64];
    int length = snprintf(text, sizeof(text), "[funds] %lld\n", (long long)session->funds);
    return put(stock, out, text, (size_t)length);
}

static int reply(void *service, void *memory, struct buffer *out) {
    struct stock_service *stock = service;
    struct session *session = memory;
    int rc;
    switch (session->request) {
    case SHOW:
        return reply_show(stock, session, out);
    case FUNDS:
        return reply_funds(stock, session, out);
    case EXIT:
        rc = put(stock, out, "exit\n", 5);
        return rc ? rc : 1;
    case BAD:
        return put(stock, out, session->error, strlen(session->error));
    default:
        return reply_order(stock, session, out);
    }
}

static const struct service_ops stock = {
    .name = "stock",
    .summary = "shows, buys and sells stocks of one shared table",
    .knobs = knobs,
    .operations = stock_client_operations,
    .max_request = LINE_LIMIT + 1,
    .session_size = sizeof(struct session),
    .create = create,
    .complain_to = complain_to,
    .save = save,
    .destroy = destroy,
    .open = open_session,
    .close = close_session,
    .lost = lost,
    .parse = parse,
    .split = split,
    .run = run,
    .reply = reply,
    .client_session_size = sizeof(struct stock_client_session),
    .client_create = stock_client_create,
    .client_destroy = stock_client_destroy,
    .client_open = stock_client_open,
    .client_close = stock_client_close,
    .ask = stock_client_ask,
    .answer = stock_client_answer,
    .say = stock_client_say,
    .show = stock_client_show,
    .ledger = stock_client_ledger,
};
REGISTER_SERVICE(stock);
