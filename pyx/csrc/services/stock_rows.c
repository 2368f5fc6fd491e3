#define _GNU_SOURCE
#include "stock_rows.h"

#include "../core/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many that no sweep sells out: one stock lasts for nearly two million buys. */
static const int64_t LEFT = 10000000;
enum { PRICE_LOW = 1000, PRICES = 9000, ROWS_LIMIT = 100000, NUMBER_SIZE = 20, FILE_LIMIT = 16 << 20 };

int stock_rows_number(const char **at, const char *end, int64_t *number) {
    const char *p = *at;
    int64_t value = 0;
    int rc = -EINVAL;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        int digit = *p - '0';
        if (rc != -ERANGE)
            rc = value > (INT64_MAX - digit) / 10 ? -ERANGE : 0;
        if (!rc)
            value = value * 10 + digit;
    }
    *at = p;
    *number = value;
    return rc;
}

int stock_rows_take(const char *line, size_t length, struct stock_row *row) {
    int64_t *fields[] = {&row->id, &row->left, &row->price};
    const char *end = line + length;
    for (int i = 0; i < 3; i++) {
        if (i && (line == end || *line++ != ' '))
            return -EINVAL;
        int rc = stock_rows_number(&line, end, fields[i]);
        if (rc)
            return rc;
    }
    return line == end ? 0 : -EINVAL;
}

static size_t put_number(char *out, int64_t number) {
    char reversed[NUMBER_SIZE];
    size_t length = 0;
    do
        reversed[length++] = (char)('0' + number % 10);
    while (number /= 10);
    for (size_t i = 0; i < length; i++)
        out[i] = reversed[length - 1 - i];
    return length;
}

size_t stock_rows_put(char *out, const struct stock_row *row) {
    size_t length = put_number(out, row->id);
    out[length++] = ' ';
    length += put_number(out + length, row->left);
    out[length++] = ' ';
    length += put_number(out + length, row->price);
    out[length++] = '\n';
    return length;
}

int stock_rows_digits(int64_t number) {
    int digits = 1;
    while (number /= 10)
        digits++;
    return digits;
}

/* Ids 1 to count in an order that is always the same, so that either side can make the table. */
static void generate(struct stock_row *rows, size_t count) {
    struct random random;
    random_seed(&random, 0x73746f636b, count);
    for (size_t i = 0; i < count; i++) {
        size_t other = random_below(&random, i + 1);
        rows[i] = rows[other];
        rows[other].id = (int64_t)i + 1;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].left = LEFT;
        rows[i].price = PRICE_LOW + (int64_t)random_below(&random, PRICES);
    }
}

static int read_line(const char *line, size_t length, long number, struct stock_row *rows, size_t *count) {
    while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        length--;
    if (!length)
        return 0;
    if (*count == ROWS_LIMIT)
        return -E2BIG;
    rows[*count].line = number;
    int rc = stock_rows_take(line, length, &rows[*count]);
    *count += !rc;
    return rc;
}

static const char *line_fault(int rc) {
    return rc == -E2BIG    ? "more stocks than the limit of 100000"
           : rc == -ERANGE ? "a number is larger than 9223372036854775807"
           : rc == -ENOMEM ? "no memory for the line"
                           : "not \"<id> <left> <price>\", three whole numbers, none negative";
}

static int read_lines(FILE *file, const char *path, char *message, size_t size, struct stock_row *rows,
                      size_t *count) {
    char *line = NULL;
    size_t capacity = 0;
    int rc = 0;
    long number = 0;
    for (ssize_t length; !rc && (length = getline(&line, &capacity, file)) >= 0;)
        rc = read_line(line, (size_t)length, ++number, rows, count);
    free(line);
    if (rc)
        snprintf(message, size, "%.300s:%ld: %s", path, number, line_fault(rc));
    else if (!feof(file))
        snprintf(message, size, "%.300s:%ld: cannot be read: %s", path, number + 1, strerror(errno));
    else if (!*count)
        snprintf(message, size, "%.300s:%ld: the file holds no stock", path, number + 1);
    else
        return 0;
    return -EINVAL;
}

static int by_id_and_line(const void *a, const void *b) {
    const struct stock_row *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->line > y->line) - (x->line < y->line);
}

static int check_twice(const char *path, char *message, size_t size, const struct stock_row *rows,
                       size_t count) {
    struct stock_row *sorted = malloc(count * sizeof(*sorted));
    if (!sorted)
        return -ENOMEM;
    memcpy(sorted, rows, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_id_and_line);
    int rc = 0;
    for (size_t i = 1; !rc && i < count; i++)
        if (sorted[i].id == sorted[i - 1].id) {
            snprintf(message, size, "%.300s:%ld: stock %lld already stands on line %ld", path, sorted[i].line,
                     (long long)sorted[i].id, sorted[i - 1].line);
            rc = -EINVAL;
        }
    free(sorted);
    return rc;
}

/* Memory for a line is bounded by the size of the file, and that of a device or a pipe is not known. */
static int check_file(FILE *file, const char *path, char *message, size_t size) {
    struct stat found;
    if (fstat(fileno(file), &found) || !S_ISREG(found.st_mode))
        snprintf(message, size, "%.300s: not a regular file", path);
    else if (found.st_size > FILE_LIMIT)
        snprintf(message, size, "%.300s: larger than %d MiB", path, FILE_LIMIT >> 20);
    else
        return 0;
    return -EINVAL;
}

/* Not to wait for whoever would write into a pipe: it is refused. */
static int read_file(const char *path, char *message, size_t size, struct stock_row *rows, size_t *count) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file) {
        int rc = -errno;
        snprintf(message, size, "%.300s: cannot be opened: %s", path, strerror(-rc));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = check_file(file, path, message, size);
    if (!rc)
        rc = read_lines(file, path, message, size, rows, count);
    fclose(file);
    return rc ? rc : check_twice(path, message, size, rows, *count);
}

int stock_rows_get(const struct config *config, char *message, size_t size, struct stock_row **out,
                   size_t *count) {
    const char *path = config_text(config, "table");
    int from_file = path && *path;
    *count = from_file ? 0 : (size_t)config_int(config, "stocks");
    struct stock_row *rows = calloc(from_file ? ROWS_LIMIT : *count, sizeof(*rows));
    if (!rows) {
        snprintf(message, size, "no memory for the stocks");
        return -ENOMEM;
    }
    int rc = 0;
    if (from_file)
        rc = read_file(path, message, size, rows, count);
    else
        generate(rows, *count);
    if (rc)
        free(rows);
    else
        *out = rows;
    return rc;
}

static int write_rows(FILE *file, const struct stock_row *rows, size_t count) {
    char text[STOCK_ROW_SIZE];
    for (size_t i = 0; i < count; i++)
        fwrite(text, 1, stock_rows_put(text, &rows[i]), file);
    if (fflush(file) || ferror(file) || fsync(fileno(file)))
        return errno ? -errno : -EIO;
    return 0;
}

/* A rename is on the disk only once its directory is. */
static int sync_directory(const char *path) {
    char *folder = strdup(path);
    if (!folder)
        return -ENOMEM;
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) ? -errno : 0;
    if (fd >= 0)
        close(fd);
    free(folder);
    return rc;
}

/* A partial file that a killed process left is made anew, and nobody's link of that name is followed. */
static int replace(const char *path, const char *partial, const struct stock_row *rows, size_t count) {
    struct stat old;
    mode_t mode = stat(path, &old) ? 0644 : old.st_mode & 0777;
    unlink(partial);
    int fd = open(partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        int rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    errno = 0;
    int rc = write_rows(file, rows, count);
    if (!rc && fchmod(fileno(file), mode))
        rc = -errno;
    if (fclose(file) && !rc)
        rc = -errno;
    if (!rc && rename(partial, path))
        rc = -errno;
    if (rc)
        unlink(partial);
    return rc ? rc : sync_directory(path);
}

int stock_rows_write(const char *path, const struct stock_row *rows, size_t count) {
    char *partial;
    if (asprintf(&partial, "%s.partial", path) < 0)
        return -ENOMEM;
    int rc = replace(path, partial, rows, count);
    free(partial);
    return rc;
}
