#include "stock_index.h"

#include <errno.h>
#include <stdlib.h>

struct node {
    int64_t id;
    int32_t child[2]; /* positions of the lower and the higher half, or -1 */
};

struct stock_index {
    int32_t root;
    struct node node[]; /* in file order */
};

struct place {
    int64_t id;
    int32_t position;
};

static int by_id(const void *a, const void *b) {
    int64_t x = ((const struct place *)a)->id, y = ((const struct place *)b)->id;
    return (x > y) - (x < y);
}

static int32_t build_balanced(struct node *node, const struct place *sorted, size_t count) {
    if (!count)
        return -1;
    size_t middle = count / 2;
    int32_t root = sorted[middle].position;
    node[root].child[0] = build_balanced(node, sorted, middle);
    node[root].child[1] = build_balanced(node, sorted + middle + 1, count - middle - 1);
    return root;
}

/* The tree of insertion in file order is the one that is ordered by id from left to right and by position
 * from the root down (a Cartesian tree: Vuillemin, 1980). Built along the sorted ids it takes linear time,
 * where inserting a sorted file of 100,000 stocks one by one would take seconds. `spine` holds the path from
 * the root to the highest id so far. */
static int32_t build_inserted(struct node *node, const struct place *sorted, size_t count, int32_t *spine) {
    size_t depth = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t position = sorted[i].position, below = -1;
        while (depth && spine[depth - 1] > position)
            below = spine[--depth];
        node[position].child[0] = below;
        node[position].child[1] = -1;
        if (depth)
            node[spine[depth - 1]].child[1] = position;
        spine[depth++] = position;
    }
    return spine[0];
}

static int build(struct stock_index *index, enum stock_index_kind kind, const struct place *sorted,
                 size_t count) {
    if (kind == STOCK_INDEX_BALANCED) {
        index->root = build_balanced(index->node, sorted, count);
        return 0;
    }
    int32_t *spine = malloc(count * sizeof(*spine));
    if (!spine)
        return -ENOMEM;
    index->root = build_inserted(index->node, sorted, count, spine);
    free(spine);
    return 0;
}

int stock_index_create(enum stock_index_kind kind, const struct stock_row *rows, size_t count,
                       struct stock_index **out) {
    struct stock_index *index = malloc(sizeof(*index) + count * sizeof(*index->node));
    struct place *sorted = malloc(count * sizeof(*sorted));
    int rc = -ENOMEM;
    if (index && sorted) {
        for (size_t i = 0; i < count; i++) {
            index->node[i].id = rows[i].id;
            sorted[i] = (struct place){rows[i].id, (int32_t)i};
        }
        qsort(sorted, count, sizeof(*sorted), by_id);
        rc = build(index, kind, sorted, count);
    }
    free(sorted);
    if (rc)
        free(index);
    else
        *out = index;
    return rc;
}

void stock_index_destroy(struct stock_index *index) {
    free(index);
}

int32_t stock_index_find(const struct stock_index *index, int64_t id) {
    int32_t at = index->root;
    while (at >= 0 && index->node[at].id != id)
        at = index->node[at].child[id > index->node[at].id];
    return at;
}

size_t stock_index_depth(const struct stock_index *index, int64_t id) {
    size_t depth = 0;
    for (int32_t at = index->root; at >= 0; at = index->node[at].child[id > index->node[at].id]) {
        depth++;
        if (index->node[at].id == id)
            break;
    }
    return depth;
}
