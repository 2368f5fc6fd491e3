/* Named distributions of positive durations, given by their mean. */
#ifndef KNEEPOINT_DISTRIBUTION_H
#define KNEEPOINT_DISTRIBUTION_H

#include "random.h"

enum distribution_kind {
    DISTRIBUTION_CONSTANT,
    DISTRIBUTION_EXPONENTIAL,
    DISTRIBUTION_TWO_POINT, /* mean/2 with probability 0.9, 5.5 × mean with 0.1: squared variation 2.25 */
    DISTRIBUTION_LOGNORMAL, /* squared coefficient of variation 4 */
    DISTRIBUTION_HYPEREXPONENTIAL, /* balanced means, squared coefficient of variation 4 */
    DISTRIBUTION_COUNT,
};

#define DISTRIBUTION_WORDS "constant|exponential|two_point|lognormal|hyperexponential"

/* The kind of that name, or DISTRIBUTION_COUNT. */
enum distribution_kind distribution_named(const char *name);

double distribution_draw(enum distribution_kind kind, double mean, struct random *random);

#endif
