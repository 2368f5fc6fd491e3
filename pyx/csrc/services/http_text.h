/* The text of HTTP/1.1 messages (RFC 9112) that both sides read: lines, fields, numbers.
 *
 * Nothing here trusts the wire: no length is believed before it was counted, no number before it fits. */
#ifndef KNEEPOINT_HTTP_TEXT_H
#define KNEEPOINT_HTTP_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A piece of a message; it ends nowhere but after `length` bytes. */
struct http_text {
    const char *at;
    size_t length;
};

/* The line at the front of `in`, without its CR LF (a lone LF ends a line, too). 1: there is one, and *used
 * says how many bytes it took. 0: more bytes are needed. -EMSGSIZE: it would be longer than `limit`. */
int http_text_line(const char *in, size_t length, size_t limit, struct http_text *line, size_t *used);

/* Splits a field line into its name and its value without the blanks around it. -EPROTO: it is none. */
int http_text_field(struct http_text line, struct http_text *name, struct http_text *value);

/* Nonzero when the text is the word, whatever the case of its letters; the word is given in small ones. */
int http_text_is(struct http_text text, const char *word);

/* Nonzero when a comma-separated list has the word. */
int http_text_has(struct http_text list, const char *word);

/* The whole text as a number in base 10 or 16. -EPROTO: it is none, or larger than 2^53. */
int http_text_number(struct http_text text, unsigned base, int64_t *number);

/* Whether text can stand in a request line or a field without ending it: no blank, no control character, not
 * empty. */
int http_text_plain(const char *text);

#endif
