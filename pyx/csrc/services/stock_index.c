#include "stock_index.h"

#include "../core/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct node {
    int64_t id;
    int32_t child[2]; /* positions of the lower and the higher half, or -1 */
};

/* An id and where its stock stands, or position -1: no stock. */
struct place {
    int64_t id;
    int32_t position;
};

struct kind {
    const char *name;
    int (*build)(struct stock_index *index, const struct place *sorted, size_t count);
    int32_t (*find)(const struct stock_index *index, int64_t id, size_t *looks);
};

struct stock_index {
    const struct kind *kind;
    int32_t root;
    struct node *node;   /* of the trees, in file order */
    struct place *place; /* of the array: sorted by id; of the hash: its places */
    size_t places;       /* of the hash a power of two */
};

static int by_id(const void *a, const void *b) {
    int64_t x = ((const struct place *)a)->id, y = ((const struct place *)b)->id;
    return (x > y) - (x < y);
}

static int make_nodes(struct stock_index *index, const struct place *sorted, size_t count) {
    index->node = malloc(count * sizeof(*index->node));
    for (size_t i = 0; index->node && i < count; i++)
        index->node[sorted[i].position].id = sorted[i].id;
    return index->node ? 0 : -ENOMEM;
}

static int32_t halve(struct node *node, const struct place *sorted, size_t count) {
    if (!count)
        return -1;
    size_t middle = count / 2;
    int32_t root = sorted[middle].position;
    node[root].child[0] = halve(node, sorted, middle);
    node[root].child[1] = halve(node, sorted + middle + 1, count - middle - 1);
    return root;
}

static int build_balanced(struct stock_index *index, const struct place *sorted, size_t count) {
    int rc = make_nodes(index, sorted, count);
    if (!rc)
        index->root = halve(index->node, sorted, count);
    return rc;
}

/* The tree of insertion in file order is the one that is ordered by id from left to right and by position
 * from the root down (a Cartesian tree: Vuillemin, 1980). Built along the sorted ids it takes linear time,
 * where inserting a sorted file of 100,000 stocks one by one would take seconds. `spine` holds the path from
 * the root to the highest id so far. */
static int build_inserted(struct stock_index *index, const struct place *sorted, size_t count) {
    int32_t *spine = malloc(count * sizeof(*spine));
    int rc = spine ? make_nodes(index, sorted, count) : -ENOMEM;
    size_t depth = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        int32_t position = sorted[i].position, below = -1;
        while (depth && spine[depth - 1] > position)
            below = spine[--depth];
        index->node[position].child[0] = below;
        index->node[position].child[1] = -1;
        if (depth)
            index->node[spine[depth - 1]].child[1] = position;
        spine[depth++] = position;
    }
    if (!rc)
        index->root = spine[0];
    free(spine);
    return rc;
}

static int32_t find_in_tree(const struct stock_index *index, int64_t id, size_t *looks) {
    const struct node *node = index->node;
    int32_t at = index->root;
    while (at >= 0 && node[at].id != id) {
        at = node[at].child[id > node[at].id];
        ++*looks;
    }
    *looks += at >= 0;
    return at;
}

/* Where a search for the id begins. */
static size_t scatter(const struct stock_index *index, int64_t id) {
    uint64_t bits = (uint64_t)id;
    return (size_t)random_mix(&bits) & (index->places - 1);
}

static int build_hash(struct stock_index *index, const struct place *sorted, size_t count) {
    index->places = 2;
    while (index->places < 2 * count)
        index->places *= 2;
    index->place = malloc(index->places * sizeof(*index->place));
    if (!index->place)
        return -ENOMEM;
    for (size_t i = 0; i < index->places; i++)
        index->place[i] = (struct place){0, -1};
    for (size_t i = 0; i < count; i++) {
        size_t at = scatter(index, sorted[i].id);
        while (index->place[at].position >= 0)
            at = (at + 1) & (index->places - 1);
        index->place[at] = sorted[i];
    }
    return 0;
}

static int32_t find_in_hash(const struct stock_index *index, int64_t id, size_t *looks) {
    size_t at = scatter(index, id);
    *looks = 1;
    while (index->place[at].position >= 0 && index->place[at].id != id) {
        at = (at + 1) & (index->places - 1);
        ++*looks;
    }
    return index->place[at].position;
}

static int build_array(struct stock_index *index, const struct place *sorted, size_t count) {
    index->places = count;
    index->place = malloc(count * sizeof(*index->place));
    if (!index->place)
        return -ENOMEM;
    memcpy(index->place, sorted, count * sizeof(*sorted));
    return 0;
}

/* The last id that is not above the one looked for, if there is one, lies in [low, low + left). */
static int32_t find_in_array(const struct stock_index *index, int64_t id, size_t *looks) {
    size_t low = 0, left = index->places;
    while (left > 1) {
        size_t half = left / 2;
        low += index->place[low + half].id <= id ? half : 0;
        left -= half;
        ++*looks;
    }
    ++*looks;
    return index->place[low].id == id ? index->place[low].position : -1;
}

static const struct kind kinds[] = {
    {"bst", build_inserted, find_in_tree},
    {"balanced", build_balanced, find_in_tree},
    {"hash", build_hash, find_in_hash},
    {"array", build_array, find_in_array},
};

static int build(struct stock_index *index, const struct stock_row *rows, size_t count) {
    struct place *sorted = malloc(count * sizeof(*sorted));
    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct place){rows[i].id, (int32_t)i};
    qsort(sorted, count, sizeof(*sorted), by_id);
    int rc = index->kind->build(index, sorted, count);
    free(sorted);
    return rc;
}

int stock_index_create(const char *kind, const struct stock_row *rows, size_t count,
                       struct stock_index **out) {
    struct stock_index *index = calloc(1, sizeof(*index));
    if (!index)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(kinds[i].name, kind))
            index->kind = &kinds[i];
    int rc = index->kind ? build(index, rows, count) : -EINVAL;
    if (rc)
        stock_index_destroy(index);
    else
        *out = index;
    return rc;
}

void stock_index_destroy(struct stock_index *index) {
    if (!index)
        return;
    free(index->node);
    free(index->place);
    free(index);
}

int32_t stock_index_find(const struct stock_index *index, int64_t id) {
    size_t looks = 0;
    return index->kind->find(index, id, &looks);
}

size_t stock_index_depth(const struct stock_index *index, int64_t id) {
    size_t looks = 0;
    index->kind->find(index, id, &looks);
    return looks;
}
