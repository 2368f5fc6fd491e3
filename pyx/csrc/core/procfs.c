#define _GNU_SOURCE
#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_file(const char *format, va_list values) {
    char path[96] = "/proc/";
    size_t start = strlen(path);
    int length = vsnprintf(path + start, sizeof(path) - start, format, values);
    if (length < 0 || (size_t)length >= sizeof(path) - start)
        return -ENAMETOOLONG;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int procfs_open(const char *format, ...) {
    va_list values;
    va_start(values, format);
    int fd = open_file(format, values);
    va_end(values);
    return fd;
}

int procfs_read(char *text, size_t size, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int fd = open_file(format, values);
    va_end(values);
    text[0] = 0;
    if (fd < 0)
        return fd;
    size_t length = 0;
    ssize_t got = 1;
    while (got > 0 && length < size - 1) {
        do
            got = read(fd, text + length, size - 1 - length);
        while (got < 0 && errno == EINTR);
        if (got > 0)
            length += (size_t)got;
    }
    int rc = got < 0 ? -errno : (int)length;
    close(fd);
    text[length] = 0;
    return rc;
}

int procfs_stat(int pid, struct procfs_stat *stat) {
    char text[1024];
    int length = procfs_read(text, sizeof(text), "%d/stat", pid);
    if (length <= 0)
        return -ESRCH;
    /* The name is in parentheses and may hold some: the last one closes it. */
    const char *rest = strrchr(text, ')');
    long long user, system;
    if (!rest || sscanf(rest + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lld %lld %*d %*d %d",
                        &stat->state, &stat->parent, &user, &system, &stat->threads) != 5)
        return -EPROTO;
    stat->reaped = (user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
    if (stat->threads <= 1 && (stat->state == 'Z' || stat->state == 'X'))
        stat->threads = 0;
    return 0;
}

int64_t procfs_number(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strchr(text, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (strncmp(line, name, length))
            continue;
        char *end;
        long long value = strtoll(line + length, &end, 10);
        return end == line + length ? -1 : value;
    }
    return -1;
}

int procfs_id(const char *name) {
    char *end;
    long id = *name >= '1' && *name <= '9' ? strtol(name, &end, 10) : 0;
    return id > 0 && id <= INT_MAX && !*end ? (int)id : 0;
}
