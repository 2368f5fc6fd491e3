/* The stocks: balances under locks, an index over their ids, and the file that they live in.
 *
 * All functions but create and destroy may be called by several threads at once. Functions that return int
 * give 0 or a negated errno. */
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
};

/* From the knobs stocks, table, lock and index. On failure message gets one line. */
int stock_table_create(const struct config *config, char *message, size_t size, struct stock_table **out);

/* Writes the file back if that is due. */
void stock_table_destroy(struct stock_table *table);

enum stock_outcome stock_table_buy(struct stock_table *table, int64_t id, int64_t amount,
                                   struct counter_block *me);
enum stock_outcome stock_table_sell(struct stock_table *table, int64_t id, int64_t amount,
                                    struct counter_block *me);

/* Appends one row a stock, in file order. With one lock over all it is the state of one moment, else each row
 * is. */
int stock_table_show(struct stock_table *table, struct buffer *out, struct counter_block *me);

/* Keeps every show within `size` bytes from now on: sells that would lengthen one beyond it find the stock
 * full. -ENOSPC: one does not fit even now; *needed is its length. Before the table is shared. */
int stock_table_confine(struct stock_table *table, size_t size, size_t *needed);

/* Writes the stocks to their file, if there is one and any balance has changed since it was written. */
int stock_table_save(struct stock_table *table);

#endif
