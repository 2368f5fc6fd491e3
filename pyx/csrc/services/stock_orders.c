#include "stock_orders.h"

#include <errno.h>
#include <stdlib.h>

int stock_orders_create(struct stock_row *rows, size_t count, struct stock_orders **out) {
    struct stock_orders *orders = calloc(1, sizeof(*orders));
    struct stock_tally *tally = calloc(count, sizeof(*tally));
    if (!orders || !tally) {
        free(orders);
        free(tally);
        free(rows);
        return -ENOMEM;
    }
    *orders = (struct stock_orders){count, rows, tally};
    *out = orders;
    return 0;
}

void stock_orders_destroy(struct stock_orders *orders) {
    if (!orders)
        return;
    free(orders->rows);
    free(orders->tally);
    free(orders);
}
