/* The stocks that a client orders, and what it bought and sold of each. */
#ifndef KNEEPOINT_STOCK_ORDERS_H
#define KNEEPOINT_STOCK_ORDERS_H

#include "stock_rows.h"
#include <stdint.h>

struct stock_tally {
    _Atomic int64_t bought, sold;
};

struct stock_orders {
    size_t count;
    struct stock_row *rows;
    struct stock_tally *tally;
};

/* Orders of the rows, which it takes over, on failure (-ENOMEM), too. */
int stock_orders_create(struct stock_row *rows, size_t count, struct stock_orders **orders);
void stock_orders_destroy(struct stock_orders *orders);

#endif
