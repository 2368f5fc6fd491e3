/* Where a stock stands in the table, by its id: a binary search tree over a set of ids that never changes.
 *
 * Two shapes: the tree that plain insertion in file order gives, which is a list when the file is sorted, and
 * the perfectly balanced one. Finding walks either in the same way. Read-only once made, so any thread may
 * use it. */
#ifndef KNEEPOINT_STOCK_INDEX_H
#define KNEEPOINT_STOCK_INDEX_H

#include "stock_rows.h"

enum stock_index_kind { STOCK_INDEX_BST, STOCK_INDEX_BALANCED };

struct stock_index;

/* rows in file order, no id twice; 0 < count < 2^31. 0 or -ENOMEM. */
int stock_index_create(enum stock_index_kind kind, const struct stock_row *rows, size_t count,
                       struct stock_index **out);
void stock_index_destroy(struct stock_index *index);

/* The position of the id, or -1. */
int32_t stock_index_find(const struct stock_index *index, int64_t id);

/* How many ids a find looks at before it has found this one or knows that it is not there. */
size_t stock_index_depth(const struct stock_index *index, int64_t id);

#endif
