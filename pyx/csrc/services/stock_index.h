/* Where a stock stands in the table, by its id, over a set of ids that never changes.
 *
 *     bst       the binary search tree that plain insertion in file order gives, which is a list when the
 *               file is sorted
 *     balanced  the perfectly balanced one; finding walks either in the same way
 *     hash      open addressing with linear probing, at most half full
 *     array     the sorted ids one behind another, searched by halving
 *
 * Read-only once made, so any thread may use it. */
#ifndef KNEEPOINT_STOCK_INDEX_H
#define KNEEPOINT_STOCK_INDEX_H

#include "stock_rows.h"

struct stock_index;

/* rows in file order, no id twice; 0 < count < 2^30. 0, -ENOMEM, or -EINVAL when there is no such kind. */
int stock_index_create(const char *kind, const struct stock_row *rows, size_t count,
                       struct stock_index **out);
void stock_index_destroy(struct stock_index *index);

/* The position of the id, or -1. */
int32_t stock_index_find(const struct stock_index *index, int64_t id);

/* How many places a find looks at before it has found this id or knows that it is not there. */
size_t stock_index_depth(const struct stock_index *index, int64_t id);

#endif
