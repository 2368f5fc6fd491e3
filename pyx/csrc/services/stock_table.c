/* Who owns what: ids, prices and the index never change. A balance is read and written under its stock's
 * lock, or, with lock=global, under the one lock of the table. `saving` lets one thread write the file at a
 * time; it is taken before any stock's lock, and no thread holds the locks of two stocks.
 *
 * Balances, locks and what is known of the file lie in shared memory, so that processes which are forked
 * later work on the same ones. What if one is killed? An order is one store of one word: it was done or it
 * was not. `changed` is set before that store and under the same lock, and the file's writer clears it before
 * it reads, having set `due`, which it clears when the file is written: whoever comes next finds one of the
 * two set. Without a lock `changed` is never cleared, as an order may then be done unseen. */
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
#include <sys/mman.h>
#include <unistd.h>

/* With a mutex, all that a buy or a sell touches for writing is one cache line. */
struct stock {
    int64_t id, price;
    _Atomic int64_t left;
    union stock_lock lock;
} __attribute__((aligned(64)));

struct shared {
    union stock_lock saving; /* a mutex */
    _Atomic int changed;     /* since the file was last written, or begun to be */
    int due;                 /* the rest is used under `saving`; the file was begun, and is not written yet */
    int complained;          /* since it was last written */
    union stock_lock whole;  /* used when global is set, and then instead of all the others */
    struct stock stock[];    /* in file order */
};

struct stock_table {
    size_t count;
    size_t size; /* bytes of the shared memory */
    struct shared *shared;
    struct stock_index *index;
    const struct stock_lock_kind *kind, *mutex;
    int processes, global;
    int64_t limit; /* most that a sell may bring a balance to */
    char *path;    /* the file to write back, or NULL */
};

static int choose_lock(struct stock_table *table, const struct config *config, int threads, char *message,
                       size_t size) {
    const char *name = config_text(config, "lock");
    table->processes = config_is(config, "processes", "yes");
    table->global = !strcmp(name, "global");
    table->mutex = stock_lock_kind("mutex");
    table->kind = table->global ? table->mutex : stock_lock_kind(name);
    if (!table->kind)
        return -EINVAL;
    if (table->processes && table->kind->stays) {
        snprintf(message, size,
                 "lock=%s: it would stay held by a process that is killed (%s); processes can use mutex, "
                 "global or seqlock",
                 name, table->kind->stays);
        return -EINVAL;
    }
    if (!table->kind->guards && threads > 1 && !config_is(config, "unsafe", "yes")) {
        snprintf(message, size,
                 "lock=%s: %d %s would overwrite each other's orders; take a lock, or say unsafe=yes", name,
                 threads, table->processes ? "processes" : "threads");
        return -EINVAL;
    }
    return 0;
}

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
    table->size = sizeof(*table->shared) + table->count * sizeof(struct stock);
    void *memory = mmap(NULL, table->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    table->shared = memory;
    table->mutex->create(&table->shared->saving, table->processes);
    table->kind->create(&table->shared->whole, table->processes);
    for (size_t i = 0; i < table->count; i++) {
        struct stock *stock = &table->shared->stock[i];
        stock->id = rows[i].id;
        stock->price = rows[i].price;
        atomic_init(&stock->left, rows[i].left);
        table->kind->create(&stock->lock, table->processes);
    }
    return 0;
}

void stock_table_destroy(struct stock_table *table) {
    if (table->shared) {
        for (size_t i = 0; i < table->count; i++)
            table->kind->destroy(&table->shared->stock[i].lock);
        table->kind->destroy(&table->shared->whole);
        table->mutex->destroy(&table->shared->saving);
        munmap(table->shared, table->size);
    }
    stock_index_destroy(table->index);
    free(table->path);
    free(table);
}

int stock_table_create(const struct config *config, int threads, char *message, size_t size,
                       struct stock_table **out) {
    struct stock_row *rows = NULL;
    struct stock_table *table = calloc(1, sizeof(*table));
    if (!table)
        return -ENOMEM;
    table->limit = INT64_MAX;
    int rc = choose_lock(table, config, threads, message, size);
    if (!rc)
        rc = stock_rows_get(config, message, size, &rows, &table->count);
    if (!rc)
        rc = find_file(table, config_text(config, "table"), message, size);
    if (!rc)
        rc = stock_index_create(config_text(config, "index"), rows, table->count, &table->index);
    if (!rc)
        rc = fill(table, rows);
    free(rows);
    if (rc)
        stock_table_destroy(table);
    else
        *out = table;
    return rc;
}

static union stock_lock *lock_of(struct stock_table *table, struct stock *stock) {
    return table->global ? &table->shared->whole : &stock->lock;
}

/* Whether the funds allow an order, and what is left of them after it. */
static int pays(int64_t funds, int64_t price, int64_t amount, int sign, int64_t *after) {
    int64_t sum;
    if (__builtin_mul_overflow(price, amount, &sum))
        return 0;
    *after = funds - sum;
    return sign < 0 ? *after >= 0 : !__builtin_add_overflow(funds, sum, after);
}

/* Changes the balance under its lock. 0: it does not allow that. */
static int move(struct stock_table *table, struct stock *stock, int64_t amount, int sign,
                struct counter_block *me) {
    struct shared *shared = table->shared;
    union stock_lock *lock = lock_of(table, stock);
    table->kind->write(lock, me);
    int64_t left = atomic_load_explicit(&stock->left, memory_order_relaxed);
    int fits = amount <= (sign < 0 ? left : table->limit - left);
    if (fits) {
        if (table->path && !atomic_load(&shared->changed))
            atomic_store(&shared->changed, 1);
        atomic_store_explicit(&stock->left, left + sign * amount, memory_order_release);
    }
    table->kind->write_end(lock);
    return fits;
}

/* sign: −1 buys, 1 sells. */
static enum stock_outcome order(struct stock_table *table, int64_t id, int64_t amount, int sign,
                                int64_t *funds, struct counter_block *me) {
    int32_t position = stock_index_find(table->index, id);
    if (position < 0)
        return STOCK_UNKNOWN;
    struct stock *stock = &table->shared->stock[position];
    int64_t after = 0;
    if (funds && !pays(*funds, stock->price, amount, sign, &after))
        return sign < 0 ? STOCK_POOR : STOCK_RICH;
    if (!move(table, stock, amount, sign, me))
        return sign < 0 ? STOCK_SHORT : STOCK_FULL;
    if (funds)
        *funds = after;
    return STOCK_DONE;
}

enum stock_outcome stock_table_buy(struct stock_table *table, int64_t id, int64_t amount, int64_t *funds,
                                   struct counter_block *me) {
    return order(table, id, amount, -1, funds, me);
}

enum stock_outcome stock_table_sell(struct stock_table *table, int64_t id, int64_t amount, int64_t *funds,
                                    struct counter_block *me) {
    return order(table, id, amount, 1, funds, me);
}

/* Between begin_reading and end_reading, with the one lock over all, nothing changes. */
static void begin_reading(struct stock_table *table, struct counter_block *me) {
    if (table->global)
        table->kind->write(&table->shared->whole, me);
}

static void end_reading(struct stock_table *table) {
    if (table->global)
        table->kind->write_end(&table->shared->whole);
}

static struct stock_row read_row(struct stock_table *table, size_t i, struct counter_block *me) {
    struct stock *stock = &table->shared->stock[i];
    int64_t left = table->global ? atomic_load_explicit(&stock->left, memory_order_relaxed)
                                 : table->kind->read(&stock->lock, &stock->left, me);
    return (struct stock_row){.id = stock->id, .left = left, .price = stock->price};
}

int stock_table_show(struct stock_table *table, struct buffer *out, struct counter_block *me) {
    int rc = 0;
    begin_reading(table, me);
    for (size_t i = 0; i < table->count && !(rc = buffer_reserve(out, STOCK_ROW_SIZE)); i++) {
        struct stock_row row = read_row(table, i, me);
        out->end += stock_rows_put(out->bytes + out->end, &row);
    }
    end_reading(table);
    return rc;
}

static size_t show_size(const struct stock_table *table, int digits) {
    size_t size = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct stock *stock = &table->shared->stock[i];
        int left = stock_rows_digits(atomic_load(&stock->left));
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
    end_reading(table);
    int rc = stock_rows_write(table->path, rows, table->count);
    free(rows);
    return rc;
}

static void say_unwritten(const struct stock_table *table, int rc, int at_end,
                          void (*complain)(const char *line)) {
    char line[512];
    snprintf(line, sizeof(line), "%.300s: cannot be written: %s; it is as it was before, %s", table->path,
             strerror(-rc),
             at_end ? "and what changed since is lost"
                    : "and is tried again when the last client leaves, and at the end");
    complain(line);
}

int stock_table_save(struct stock_table *table, int at_end, void (*complain)(const char *line)) {
    struct shared *shared = table->shared;
    int rc = 0;
    if (!table->path)
        return 0;
    table->mutex->write(&shared->saving, NULL);
    if (atomic_load(&shared->changed)) {
        shared->due = 1;
        if (table->kind->guards)
            atomic_store(&shared->changed, 0);
    }
    if (shared->due) {
        rc = write_back(table);
        if (rc && complain && (at_end || !shared->complained))
            say_unwritten(table, rc, at_end, complain);
        shared->due = shared->complained = rc != 0;
    }
    table->mutex->write_end(&shared->saving);
    return rc;
}
