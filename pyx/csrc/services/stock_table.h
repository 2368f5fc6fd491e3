/* The stocks: balances under locks, an index over their ids, and the file that they live in.
 *
 * All functions but create, confine and destroy may be called by several threads at once and, with
 * processes=yes in the settings, by several processes that were forked after create, each of which may be
 * killed at any moment. Functions that return int give 0 or a negated errno. */
#ifndef KNEEPOINT_STOCK_TABLE_H
#define KNEEPOINT_STOCK_TABLE_H

#include "../core/buffer.h"
#include "../core/config.h"
#include "../core/counters.h"
#include <stdint.h>

struct stock_table;

enum stock_outcome {
    STOCK_DONE,
    STOCK_SHORT,   /* a buy of more than is left */
    STOCK_UNKNOWN, /* no such id */
    STOCK_FULL,    /* a sell beyond what a stock can hold */
    STOCK_POOR,    /* a buy of more than the funds can pay */
    STOCK_RICH,    /* a sell that pays more than funds can hold */
};

/* From the knobs stocks, table, lock, unsafe and index; `threads` of them, or processes, order and show at
 * once. On failure message gets one line. */
int stock_table_create(const struct config *config, int threads, char *message, size_t size,
                       struct stock_table **out);
void stock_table_destroy(struct stock_table *table);

/* funds: what a buy is paid from and a sell pays into, the caller's own; NULL: orders cost nothing. */
enum stock_outcome stock_table_buy(struct stock_table *table, int64_t id, int64_t amount, int64_t *funds,
                                   struct counter_block *me);
enum stock_outcome stock_table_sell(struct stock_table *table, int64_t id, int64_t amount, int64_t *funds,
                                    struct counter_block *me);

/* Appends one row a stock, in file order. With one lock over all it is the state of one moment, else each row
 * is. */
int stock_table_show(struct stock_table *table, struct buffer *out, struct counter_block *me);

/* Keeps every show within `size` bytes from now on: sells that would lengthen one beyond it find the stock
 * full. -ENOSPC: one does not fit even now; *needed is its length. Before the table is shared. */
int stock_table_confine(struct stock_table *table, size_t size, size_t *needed);

/* Writes the stocks to their file, if there is one and any balance has changed since it was written. A file
 * that cannot be written stays as it was, and due; complain, if it is not NULL, is told so, but not again
 * before it has been written. At the end it is told in any case. */
int stock_table_save(struct stock_table *table, int at_end, void (*complain)(const char *line));

#endif
