/* Random numbers of the distributions of core/distribution.h, exponential ones by the ziggurat of Marsaglia
 * and Tsang
 * ("The ziggurat method for generating random variables", Journal of Statistical Software 5(8), 2000): the
 * area under the density is cut into layers of equal area, and a point of a layer is nearly always below the
 * density. */
#ifndef KNEEPOINT_SIM_DRAW_H
#define KNEEPOINT_SIM_DRAW_H

#include "../core/distribution.h"

enum { DRAW_LAYERS = 256 };

/* Right edges of the layers, the lowest first, and the density there. */
struct draw_table {
    double edge[DRAW_LAYERS + 1], density[DRAW_LAYERS + 1];
};

void draw_prepare(struct draw_table *table);

/* Exponential of mean 1, where the first layer did not decide. */
double draw_exponential_rarely(const struct draw_table *table, struct random *random, uint32_t layer,
                               double x);

/* Of a kind of enum distribution_kind, which must be one of them. */
double draw_rarely(const struct draw_table *table, struct random *random, int64_t kind, double mean);

static inline double draw_exponential(const struct draw_table *table, struct random *random) {
    const uint64_t bits = random_next(random);
    const uint32_t layer = bits & (DRAW_LAYERS - 1);
    const double x = (double)(bits >> 11) * 0x1p-53 * table->edge[layer];
    if (__builtin_expect(x < table->edge[layer + 1], 1))
        return x;
    return draw_exponential_rarely(table, random, layer, x);
}

static inline double draw(const struct draw_table *table, struct random *random, int64_t kind, double mean) {
    if (kind == DISTRIBUTION_EXPONENTIAL)
        return mean * draw_exponential(table, random);
    return draw_rarely(table, random, kind, mean);
}

#endif
