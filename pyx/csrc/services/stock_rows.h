/* Stocks as rows of text, "<id> <left> <price>\n": generated, read from a file, written to one.
 *
 * Functions that return int give 0 or a negated errno. */
#ifndef KNEEPOINT_STOCK_ROWS_H
#define KNEEPOINT_STOCK_ROWS_H

#include "../core/config.h"
#include <stddef.h>
#include <stdint.h>

enum { STOCK_ROW_SIZE = 64 }; /* the longest row: three numbers of 19 digits, two spaces, the newline */

struct stock_row {
    int64_t id, left, price;
    long line; /* where the row stands in its file */
};

/* The rows that the knobs `table` and `stocks` mean, in file order, at least one and no id twice; the caller
 * frees them. On failure message (of size bytes) gets one line, with file and line number where a file is at
 * fault. */
int stock_rows_get(const struct config *config, char *message, size_t size, struct stock_row **rows,
                   size_t *count);

/* Replaces the file as a whole: a reader, or a crash at any moment, finds the old rows or the new ones. */
int stock_rows_write(const char *path, const struct stock_row *rows, size_t count);

/* Takes a whole number from 0 to INT64_MAX from *at and moves *at behind it. -EINVAL: no digit there.
 * -ERANGE: larger. */
int stock_rows_number(const char **at, const char *end, int64_t *number);

/* Takes a row without its newline. -EINVAL or -ERANGE when it is not exactly three numbers. */
int stock_rows_take(const char *line, size_t length, struct stock_row *row);

/* Writes a row with its newline, at most STOCK_ROW_SIZE bytes; returns its length. */
size_t stock_rows_put(char *out, const struct stock_row *row);

/* Digits of a number as written. */
int stock_rows_digits(int64_t number);

#endif
