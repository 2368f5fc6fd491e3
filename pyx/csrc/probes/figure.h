/* A probe's own times, whose median becomes a note. */
#ifndef KNEEPOINT_FIGURE_H
#define KNEEPOINT_FIGURE_H

#include "../core/probe.h"

#include <stdlib.h>

enum { FIGURE_KEPT = 4096 };

struct figure {
    uint64_t count;
    double value[FIGURE_KEPT]; /* the latest, so that what was seen while warming up goes first */
};

static inline void figure_add(struct figure *figure, double value) {
    figure->value[figure->count++ % FIGURE_KEPT] = value;
}

static inline int figure_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Writes the median as a note; nothing where there is none. Sorts what is kept. */
static inline void figure_note(struct figure *figure, struct probe_end *me, const char *name) {
    size_t kept = figure->count < FIGURE_KEPT ? (size_t)figure->count : FIGURE_KEPT;
    if (!kept)
        return;
    qsort(figure->value, kept, sizeof(double), figure_order);
    probe_note(me, name, (figure->value[(kept - 1) / 2] + figure->value[kept / 2]) / 2);
}

#endif
