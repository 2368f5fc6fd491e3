/* What the fuzz targets share: how an input is read, how its bytes choose settings, and what a broken promise
 * comes to.
 *
 * An input is a number, that many bytes that steer, and the bytes that are fuzzed. A byte that is not there
 * steers as 0, which always means the default: an input stays good when a service gains a knob, and an input
 * that begins with a zero byte is a plain message. Which service is fuzzed is an argument, --service=NAME, so
 * that each has a corpus of its own. */
#ifndef KNEEPOINT_FUZZ_INPUT_H
#define KNEEPOINT_FUZZ_INPUT_H

#include "core/registry.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECES = 4, READ_SIZE = 16384, MANY = 99, FEW = 6, MOST_PIECES = 512 };

struct input {
    const uint8_t *steer;
    size_t steers;
    const char *bytes;
    size_t length;
};

static const struct service_ops *ops;

/* A promise of the service was broken: the fuzzer keeps the input. */
__attribute__((format(printf, 2, 3))) static inline void require(int kept, const char *format, ...) {
    if (kept)
        return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "broken promise of %s: ", ops ? ops->name : "the settings");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

static inline void *need(void *memory) {
    if (!memory)
        abort();
    return memory;
}

/* Takes --service=NAME out of the words. */
static inline void choose_service(int *count, char **words) {
    for (int i = 1; i < *count; i++) {
        if (strncmp(words[i], "--service=", 10) != 0)
            continue;
        ops = registry_service(words[i] + 10);
        memmove(&words[i], &words[i + 1], (size_t)(*count - i) * sizeof(*words));
        --*count;
        break;
    }
    if (ops)
        return;
    fprintf(stderr, "which service? --service=NAME\n");
    exit(2);
}

static inline struct input read_input(const uint8_t *data, size_t size) {
    size_t steers = size ? data[0] : 0, left = size ? size - 1 : 0;
    if (steers > left)
        steers = left;
    return (struct input){data + 1, steers, (const char *)data + 1 + steers, left - steers};
}

static inline uint8_t steer(struct input *input) {
    if (!input->steers)
        return 0;
    input->steers--;
    return *input->steer++;
}

/* The word of "a|b|c" that the byte chooses; 0: the default. */
static inline void choose_word(const struct knob *knob, uint8_t byte, char *value, size_t size) {
    const char *word = knob->allowed;
    int words = 1;
    for (const char *at = word; *at; at++)
        words += *at == '|';
    for (int skipped = byte % (words + 1) - 1; skipped > 0; skipped--)
        word = strchr(word, '|') + 1;
    if (byte % (words + 1))
        snprintf(value, size, "%.*s", (int)strcspn(word, "|"), word);
}

/* The default, the lowest value, a few more, or many; never so many, nor so long a time, that one input takes
 * seconds. */
static inline void choose_number(const struct knob *knob, uint8_t byte, char *value, size_t size) {
    static const double more[] = {0, 0, FEW, MANY};
    char *rest;
    double low = strtod(knob->allowed, &rest), high = strtod(rest + 1, NULL);
    double number = low + more[byte % 4] * (knob->type == KNOB_INT ? 1 : 1e-8);
    if (byte % 4)
        snprintf(value, size, "%.12g", number < high ? number : high);
}

/* Settings for every knob of the tables, one byte each; text keeps its default. */
static inline struct config *choose_settings(struct input *input, const struct knob *const *tables) {
    struct config *config;
    if (config_create(&config))
        abort();
    for (; *tables; tables++)
        for (const struct knob *knob = *tables; knob->name; knob++) {
            char value[256];
            uint8_t byte = steer(input);
            snprintf(value, sizeof(value), "%s", knob->standard);
            if (knob->type == KNOB_CHOICE)
                choose_word(knob, byte, value, sizeof(value));
            else if (knob->type != KNOB_TEXT)
                choose_number(knob, byte, value, sizeof(value));
            if (config_set(config, knob->name, value))
                abort();
        }
    return config;
}

/* How a stream is cut: sizes that are used in turn; a stream that is long gets larger pieces. */
struct cuts {
    size_t size[PIECES];
    size_t next;
};

static inline struct cuts choose_cuts(struct input *input, size_t length) {
    struct cuts cuts = {.next = 0};
    for (size_t i = 0; i < PIECES; i++) {
        uint8_t byte = steer(input);
        cuts.size[i] = (byte ? byte : 1) + length / MOST_PIECES;
    }
    return cuts;
}

static inline struct cuts no_cuts(void) {
    return (struct cuts){.size = {READ_SIZE, READ_SIZE, READ_SIZE, READ_SIZE}};
}

static inline size_t cut(struct cuts *cuts, size_t left) {
    size_t size = cuts->size[cuts->next++ % PIECES];
    return size < left ? size : left;
}

/* Bytes that have come and are not taken yet, in a block of exactly their length, so that a look behind them
 * is seen. */
struct block {
    char *bytes;
    size_t length, taken;
};

/* Drops what was taken and appends a piece of the stream, which repeats `source`. */
static inline void block_grow(struct block *block, const char *source, size_t length, size_t at,
                              size_t piece) {
    size_t left = block->length - block->taken;
    char *bytes = need(malloc(left + piece));
    if (left)
        memcpy(bytes, block->bytes + block->taken, left);
    for (size_t done = 0, run; done < piece; done += run) {
        size_t from = (at + done) % length;
        run = length - from < piece - done ? length - from : piece - done;
        memcpy(bytes + left + done, source + from, run);
    }
    free(block->bytes);
    *block = (struct block){bytes, left + piece, 0};
}

/* A digest of a stream, whatever its pieces. */
struct digest {
    uint64_t hash;
    size_t length;
};

static inline void digest_bytes(struct digest *digest, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        digest->hash = (digest->hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    digest->length += length;
}

static inline void digest_buffer(struct digest *digest, struct buffer *buffer) {
    digest_bytes(digest, buffer_length(buffer) ? buffer_data(buffer) : "", buffer_length(buffer));
    buffer_consume(buffer, buffer_length(buffer));
}

static inline int digest_same(const struct digest *a, const struct digest *b) {
    return a->hash == b->hash && a->length == b->length;
}

static inline struct counter_block *make_counters(void) {
    struct counters *counters = need(aligned_alloc(_Alignof(struct counters), counters_size()));
    memset(counters, 0, counters_size());
    return counters_claim(counters, ROLE_WORKER);
}

/* Linked by --wrap=time: a reply that tells the time of day is always the same. */
time_t __wrap_time(time_t *out);

time_t __wrap_time(time_t *out) {
    static const time_t standing = 1700000000;
    if (out)
        *out = standing;
    return standing;
}

#endif
