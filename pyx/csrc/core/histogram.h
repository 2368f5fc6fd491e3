/* Counts of durations in logarithmic buckets: relative error at most 1/1024, from 0 ns to 2^42 ns (73
 * minutes).
 *
 * The layout is HdrHistogram's with 2048 sub-buckets (three significant digits, unit 1 ns), so histograms
 * merge by adding their counts. One writer at a time. */
#ifndef KNEEPOINT_HISTOGRAM_H
#define KNEEPOINT_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 11,
    HISTOGRAM_MAX_BITS = 42,
    HISTOGRAM_BUCKETS = ((HISTOGRAM_MAX_BITS - HISTOGRAM_SUB_BITS + 1) << (HISTOGRAM_SUB_BITS - 1)) +
                        (1 << (HISTOGRAM_SUB_BITS - 1)),
};

struct histogram {
    uint64_t count;
    uint64_t sum; /* exact, ns */
    uint64_t min; /* exact, ns; meaningless while count is 0 */
    uint64_t max;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

static inline size_t histogram_index(uint64_t value) {
    if (value >> HISTOGRAM_MAX_BITS)
        value = ((uint64_t)1 << HISTOGRAM_MAX_BITS) - 1;
    int bits = 64 - __builtin_clzll(value | 1);
    int shift = bits > HISTOGRAM_SUB_BITS ? bits - HISTOGRAM_SUB_BITS : 0;
    return ((size_t)shift << (HISTOGRAM_SUB_BITS - 1)) + (size_t)(value >> shift);
}

/* Least value that falls into the bucket, and the number of values that do. */
static inline uint64_t histogram_floor(size_t index) {
    size_t half = (size_t)1 << (HISTOGRAM_SUB_BITS - 1);
    size_t shift = index < 2 * half ? 0 : index / half - 1;
    return (uint64_t)(index - shift * half) << shift;
}

static inline uint64_t histogram_width(size_t index) {
    size_t half = (size_t)1 << (HISTOGRAM_SUB_BITS - 1);
    return (uint64_t)1 << (index < 2 * half ? 0 : index / half - 1);
}

static inline void histogram_record(struct histogram *histogram, uint64_t value) {
    if (!histogram->count || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->count++;
    histogram->sum += value;
    histogram->bucket[histogram_index(value)]++;
}

/* Adds all that `from` has counted. */
static inline void histogram_merge(struct histogram *into, const struct histogram *from) {
    if (!from->count)
        return;
    if (!into->count || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    into->sum += from->sum;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

#endif
