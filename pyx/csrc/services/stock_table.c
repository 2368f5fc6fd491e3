/* Who owns what: ids, prices and the index never change. A balance is read and written under its stock's
 * lock, or, with lock=global, under the one lock of the table. `saving` lets one thread write the file at a
 * time; it is taken before any stock's lock, and no thread holds the locks of two stocks. */
#define _GNU_SOURCE
#include "stock_table.h"

#include "stock_index.h"
#include "stock_lock.h"
#include "stock_rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With a mutex, all that a buy or a sell touches for writing is one cache line. */
struct stock {
    int64_t id, left, price;
    union stock_lock lock;
} __attribute__((aligned(64)));

struct stock_table {
    size_t count;
    struct stock *stock; /* in file order */
    struct stock_index *index;
    enum stock_lock_kind kind;
    int global;
    union stock_lock whole; /* used when global is set, and then instead of all the others */
    int64_t limit;          /* most that a sell may bring a balance to */
    char *path;             /* the file to write back, or NULL */
    pthread_mutex_t saving;
    _Atomic int changed; /* since the file was written; set while the balance's lock is held */
};

/* An absolute path: what a link points at is replaced, not the link, and a later chdir does not matter. */
static int find_file(struct stock_table *table, const char *path, char *message, size_t size) {
    if (!*path)
        return 0;
    table->path = realpath(path, NULL);
    if (!table->path)
        return -errno;
    char *slash = strrchr(table->path, '/');
    *slash = 0;
    int rc = access(slash == table->path ? "/" : table->path, W_OK | X_OK) ? -errno : 0;
    *slash = '/';
    if (!rc && access(table->path, W_OK))
        rc = -errno;
    if (rc)
        snprintf(message, size, "%.300s: cannot be written back: %s", path, strerror(-rc));
    return rc;
}

static int fill(struct stock_table *table, const struct stock_row *rows) {
    table->stock = aligned_alloc(_Alignof(struct stock), table->count * sizeof(*table->stock));
    if (!table->stock)
        return -ENOMEM;
    stock_lock_create(table->kind, &table->whole);
    pthread_mutex_init(&table->saving, NULL);
    for (size_t i = 0; i < table->count; i++) {
        struct stock *stock = &table->stock[i];
        *stock = (struct stock){.id = rows[i].id, .left = rows[i].left, .price = rows[i].price};
        stock_lock_create(table->kind, &stock->lock);
    }
    return 0;
}

static void discard(struct stock_table *table) {
    for (size_t i = 0; table->stock && i < table->count; i++)
        stock_lock_destroy(table->kind, &table->stock[i].lock);
    if (table->stock) {
        stock_lock_destroy(table->kind, &table->whole);
        pthread_mutex_destroy(&table->saving);
    }
    stock_index_destroy(table->index);
    free(table->stock);
    free(table->path);
    free(table);
}

int stock_table_create(const struct config *config, char *message, size_t size, struct stock_table **out) {
    struct stock_row *rows = NULL;
    struct stock_table *table = calloc(1, sizeof(*table));
    if (!table)
        return -ENOMEM;
    table->global = config_is(config, "lock", "global");
    table->kind =
        config_is(config, "lock", "readers_writers") ? STOCK_LOCK_READERS_WRITERS : STOCK_LOCK_MUTEX;
    table->limit = INT64_MAX;
    int rc = stock_rows_get(config, message, size, &rows, &table->count);
    if (!rc)
        rc = find_file(table, config_text(config, "table"), message, size);
    if (!rc)
        rc = stock_index_create(config_is(config, "index", "bst") ? STOCK_INDEX_BST : STOCK_INDEX_BALANCED,
                                rows, table->count, &table->index);
    if (!rc)
        rc = fill(table, rows);
    free(rows);
    if (rc)
        discard(table);
    else
        *out = table;
    return rc;
}

void stock_table_destroy(struct stock_table *table) {
    stock_table_save(table);
    discard(table);
}

static union stock_lock *lock_of(struct stock_table *table, struct stock *stock) {
    return table->global ? &table->whole : &stock->lock;
}

/* Changes a balance by sign × amount if the result stays between 0 and the limit. */
static enum stock_outcome change(struct stock_table *table, int64_t id, int64_t amount, int sign,
                                 struct counter_block *me, enum stock_outcome refusal) {
    int32_t position = stock_index_find(table->index, id);
    if (position < 0)
        return STOCK_UNKNOWN;
    struct stock *stock = &table->stock[position];
    union stock_lock *lock = lock_of(table, stock);
    stock_lock_write(table->kind, lock, me);
    int64_t room = sign < 0 ? stock->left : table->limit - stock->left;
    int fits = amount <= room;
    if (fits) {
        stock->left += sign * amount;
        if (table->path && !atomic_load(&table->changed))
            atomic_store(&table->changed, 1);
    }
    stock_lock_write_end(table->kind, lock);
    return fits ? STOCK_DONE : refusal;
}

enum stock_outcome stock_table_buy(struct stock_table *table, int64_t id, int64_t amount,
                                   struct counter_block *me) {
    return change(table, id, amount, -1, me, STOCK_SHORT);
}

enum stock_outcome stock_table_sell(struct stock_table *table, int64_t id, int64_t amount,
                                    struct counter_block *me) {
    return change(table, id, amount, 1, me, STOCK_FULL);
}

/* Between begin_reading and end_reading, with the one lock over all, nothing changes. */
static void begin_reading(struct stock_table *table, struct counter_block *me) {
    if (table->global)
        stock_lock_read(table->kind, &table->whole, me);
}

static void end_reading(struct stock_table *table, struct counter_block *me) {
    if (table->global)
        stock_lock_read_end(table->kind, &table->whole, me);
}

static struct stock_row read_row(struct stock_table *table, size_t i, struct counter_block *me) {
    struct stock *stock = &table->stock[i];
    struct stock_row row = {.id = stock->id, .price = stock->price};
    if (!table->global)
        stock_lock_read(table->kind, &stock->lock, me);
    row.left = stock->left;
    if (!table->global)
        stock_lock_read_end(table->kind, &stock->lock, me);
    return row;
}

int stock_table_show(struct stock_table *table, struct buffer *out, struct counter_block *me) {
    int rc = 0;
    begin_reading(table, me);
    for (size_t i = 0; i < table->count && !(rc = buffer_reserve(out, STOCK_ROW_SIZE)); i++) {
        struct stock_row row = read_row(table, i, me);
        out->end += stock_rows_put(out->bytes + out->end, &row);
    }
    end_reading(table, me);
    return rc;
}

static size_t show_size(const struct stock_table *table, int digits) {
    size_t size = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct stock *stock = &table->stock[i];
        int left = stock_rows_digits(stock->left);
        size += (size_t)(stock_rows_digits(stock->id) + 1 + (left > digits ? left : digits) + 1 +
                         stock_rows_digits(stock->price) + 1);
    }
    return size;
}

int stock_table_confine(struct stock_table *table, size_t size, size_t *needed) {
    int digits = stock_rows_digits(INT64_MAX);
    *needed = show_size(table, 1);
    if (*needed > size)
        return -ENOSPC;
    if (show_size(table, digits) <= size)
        return 0;
    while (show_size(table, digits) > size)
        digits--;
    table->limit = 1;
    for (int i = 0; i < digits; i++)
        table->limit *= 10;
    table->limit--;
    return 0;
}

static int write_back(struct stock_table *table) {
    struct stock_row *rows = malloc(table->count * sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    begin_reading(table, NULL);
    for (size_t i = 0; i < table->count; i++)
        rows[i] = read_row(table, i, NULL);
    end_reading(table, NULL);
    int rc = stock_rows_write(table->path, rows, table->count);
    free(rows);
    return rc;
}

int stock_table_save(struct stock_table *table) {
    if (!table->path)
        return 0;
    int rc = 0;
    pthread_mutex_lock(&table->saving);
    if (atomic_exchange(&table->changed, 0)) {
        rc = write_back(table);
        if (rc)
            atomic_store(&table->changed, 1);
    }
    pthread_mutex_unlock(&table->saving);
    return rc;
}
