/* A growable run of bytes with a read position and a hard limit. One owner at a time. */
#ifndef KNEEPOINT_BUFFER_H
#define KNEEPOINT_BUFFER_H

#include <stddef.h>

struct buffer {
    char *bytes;
    size_t start;    /* first unread byte */
    size_t end;      /* one past the last written byte */
    size_t capacity; /* allocated */
    size_t limit;    /* unread bytes never exceed this */
};

/* An empty buffer; nothing is allocated before the first write. */
void buffer_init(struct buffer *buffer, size_t limit);
void buffer_free(struct buffer *buffer);

/* Makes room for `length` more bytes behind end. -ENOBUFS beyond the limit, -ENOMEM without memory. */
int buffer_reserve(struct buffer *buffer, size_t length);

/* Appends a copy; errors as buffer_reserve. */
int buffer_put(struct buffer *buffer, const void *bytes, size_t length);

/* Appends a text and a newline, all or nothing; errors as buffer_reserve. */
int buffer_line(struct buffer *buffer, const char *text);

/* Appends formatted text; errors as buffer_reserve. */
int buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline size_t buffer_length(const struct buffer *buffer) {
    return buffer->end - buffer->start;
}

static inline const char *buffer_data(const struct buffer *buffer) {
    return buffer->bytes + buffer->start;
}

/* Drops bytes from the front. */
static inline void buffer_consume(struct buffer *buffer, size_t length) {
    buffer->start += length;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}

#endif
