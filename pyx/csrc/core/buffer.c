#include "buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *buffer, size_t limit) {
    *buffer = (struct buffer){.limit = limit};
}

void buffer_free(struct buffer *buffer) {
    free(buffer->bytes);
    *buffer = (struct buffer){.limit = buffer->limit};
}

int buffer_reserve(struct buffer *buffer, size_t length) {
    size_t used = buffer_length(buffer);
    if (length > buffer->limit - used)
        return -ENOBUFS;
    if (buffer->end + length <= buffer->capacity)
        return 0;
    if (buffer->start) {
        memmove(buffer->bytes, buffer->bytes + buffer->start, used);
        buffer->start = 0;
        buffer->end = used;
    }
    if (used + length <= buffer->capacity)
        return 0;
    size_t capacity = buffer->capacity ? buffer->capacity : 512;
    while (capacity < used + length)
        capacity *= 2;
    char *bytes = realloc(buffer->bytes, capacity);
    if (!bytes)
        return -ENOMEM;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return 0;
}

int buffer_put(struct buffer *buffer, const void *bytes, size_t length) {
    int rc = buffer_reserve(buffer, length);
    if (rc || !length)
        return rc;
    memcpy(buffer->bytes + buffer->end, bytes, length);
    buffer->end += length;
    return 0;
}

int buffer_line(struct buffer *buffer, const char *text) {
    size_t length = strlen(text);
    int rc = buffer_reserve(buffer, length + 1);
    if (!rc)
        rc = buffer_put(buffer, text, length);
    return rc ? rc : buffer_put(buffer, "\n", 1);
}

int buffer_printf(struct buffer *buffer, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof(text))
        return -ENOBUFS;
    return buffer_put(buffer, text, (size_t)length);
}
