#include "distribution.h"

#include <string.h>

enum distribution_kind distribution_named(const char *name) {
    static const char *const names[] = {"constant", "exponential", "two_point", "lognormal",
                                        "hyperexponential"};
    int kind = 0;
    while (kind < DISTRIBUTION_COUNT && strcmp(names[kind], name))
        kind++;
    return (enum distribution_kind)kind;
}

double distribution_draw(enum distribution_kind kind, double mean, struct random *random) {
    static const double squared_variation = 4;
    switch (kind) {
    case DISTRIBUTION_EXPONENTIAL:
        return mean * random_exponential(random);
    case DISTRIBUTION_TWO_POINT:
        return random_unit(random) < 0.9 ? mean * 0.5 : mean * 5.5;
    case DISTRIBUTION_LOGNORMAL: {
        double variance = log1p(squared_variation);
        return mean * exp(sqrt(variance) * random_normal(random) - variance / 2);
    }
    case DISTRIBUTION_HYPEREXPONENTIAL: {
        double p = (1 + sqrt((squared_variation - 1) / (squared_variation + 1))) / 2;
        double share = random_unit(random) < p ? p : 1 - p;
        return mean / (2 * share) * random_exponential(random);
    }
    default:
        return mean;
    }
}
