#include "http_text.h"

#include <errno.h>
#include <string.h>

static const int64_t NUMBER_LIMIT = (int64_t)1 << 53;

int http_text_line(const char *in, size_t length, size_t limit, struct http_text *line, size_t *used) {
    const char *end = memchr(in, '\n', length);
    size_t whole = end ? (size_t)(end - in) + 1 : length;
    if (whole > limit)
        return -EMSGSIZE;
    if (!end)
        return 0;
    *used = whole;
    *line = (struct http_text){in, whole - 1};
    if (line->length && end[-1] == '\r')
        line->length--;
    return 1;
}

static int is_blank(char byte) {
    return byte == ' ' || byte == '\t';
}

static struct http_text trim(struct http_text text) {
    while (text.length && is_blank(*text.at))
        text.at++, text.length--;
    while (text.length && is_blank(text.at[text.length - 1]))
        text.length--;
    return text;
}

int http_text_field(struct http_text line, struct http_text *name, struct http_text *value) {
    const char *colon = memchr(line.at, ':', line.length);
    if (!colon || colon == line.at)
        return -EPROTO;
    *name = (struct http_text){line.at, (size_t)(colon - line.at)};
    for (size_t i = 0; i < name->length; i++)
        if ((unsigned char)name->at[i] <= ' ' || name->at[i] == 0x7f)
            return -EPROTO;
    *value = trim((struct http_text){colon + 1, line.length - name->length - 1});
    return 0;
}

static char small(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
}

int http_text_is(struct http_text text, const char *word) {
    for (size_t i = 0; i < text.length; i++)
        if (!word[i] || small(text.at[i]) != word[i])
            return 0;
    return !word[text.length];
}

int http_text_has(struct http_text list, const char *word) {
    while (list.length) {
        const char *comma = memchr(list.at, ',', list.length);
        size_t length = comma ? (size_t)(comma - list.at) : list.length;
        if (http_text_is(trim((struct http_text){list.at, length}), word))
            return 1;
        length += comma != NULL;
        list = (struct http_text){list.at + length, list.length - length};
    }
    return 0;
}

static unsigned digit(char letter) {
    letter = small(letter);
    if (letter >= '0' && letter <= '9')
        return (unsigned)(letter - '0');
    return letter >= 'a' && letter <= 'f' ? (unsigned)(letter - 'a') + 10 : 16;
}

int http_text_number(struct http_text text, unsigned base, int64_t *number) {
    int64_t found = 0;
    if (!text.length)
        return -EPROTO;
    for (size_t i = 0; i < text.length; i++) {
        unsigned value = digit(text.at[i]);
        if (value >= base)
            return -EPROTO;
        found = found * base + value;
        if (found > NUMBER_LIMIT)
            return -EPROTO;
    }
    *number = found;
    return 0;
}

int http_text_plain(const char *text) {
    if (!*text)
        return 0;
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return 0;
    return 1;
}
