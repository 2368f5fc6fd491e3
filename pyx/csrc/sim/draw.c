#include "draw.h"

/* For 256 layers: where the tail begins, and the area of each layer (Marsaglia and Tsang 2000, section 2). */
static const double tail = 7.69711747013104972, area = 3.949659822581571993e-3;

void draw_prepare(struct draw_table *table) {
    /* The lowest layer is a rectangle and the tail: as a rectangle of the same area it reaches beyond the
     * tail. */
    table->edge[0] = area / exp(-tail);
    table->edge[1] = tail;
    for (int k = 2; k < DRAW_LAYERS; k++)
        table->edge[k] = -log(exp(-table->edge[k - 1]) + area / table->edge[k - 1]);
    table->edge[DRAW_LAYERS] = 0;
    for (int k = 0; k <= DRAW_LAYERS; k++)
        table->density[k] = exp(-table->edge[k]);
}

double draw_exponential_rarely(const struct draw_table *table, struct random *random, uint32_t layer,
                               double x) {
    double beyond = 0;
    for (;;) {
        const double low = table->density[layer], high = table->density[layer + 1];
        if (layer == 0)
            beyond += tail; /* what lies beyond the tail's begin is exponential again */
        else if (low + random_unit(random) * (high - low) < exp(-x))
            return beyond + x;
        const uint64_t bits = random_next(random);
        layer = bits & (DRAW_LAYERS - 1);
        x = (double)(bits >> 11) * 0x1p-53 * table->edge[layer];
        if (x < table->edge[layer + 1])
            return beyond + x;
    }
}

double draw_rarely(const struct draw_table *table, struct random *random, int64_t kind, double mean) {
    if (kind != DISTRIBUTION_HYPEREXPONENTIAL)
        return distribution_draw((enum distribution_kind)kind, mean, random);
    const double p = (1 + sqrt(3.0 / 5)) / 2; /* of squared variation 4 */
    const double share = random_unit(random) < p ? p : 1 - p;
    return mean / (2 * share) * draw_exponential(table, random);
}
