/* The words of a command line: names in their order, options with one value each, and name=value settings.
 *
 * Functions that return int give 0 or a negated errno. */
#ifndef KNEEPOINT_ARGUMENTS_H
#define KNEEPOINT_ARGUMENTS_H

#include "config.h"
#include <stdint.h>

/* An option such as --host, and where its value goes. Tables end with a name of NULL. */
struct argument_option {
    const char *name;
    const char **value;
};

/* Takes all words behind the program's own. names is ended by NULL, and every one of them must be given.
 * -EINVAL: an unknown option, one without its value, a name too few or too many. Values point into words. */
int arguments_read(int count, char **words, const char **const *names, const struct argument_option *options,
                   struct config *config);

/* A whole number of 0 … high. */
int arguments_number(const char *text, int64_t high, int64_t *out);

#endif
