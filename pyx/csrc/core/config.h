/* A set of name=value settings, checked against knob tables.
 *
 * Functions that return int give 0 or a negated errno. Not thread-safe while being filled; read-only use is.
 */
#ifndef KNEEPOINT_CONFIG_H
#define KNEEPOINT_CONFIG_H

#include "knob.h"
#include <stddef.h>

struct config;

int config_create(struct config **out);
void config_destroy(struct config *config);

/* Stores a copy of name=value; a later value for the same name replaces the earlier one. */
int config_set(struct config *config, const char *name, const char *value);

/* Gives every knob of the table that is not set its default. */
int config_fill(struct config *config, const struct knob *knobs);

/* The value as text, or NULL when it is not set. */
const char *config_text(const struct config *config, const char *name);

/* The value as a number. The name must be set and have been checked: an unset or malformed one gives 0. */
long config_int(const struct config *config, const char *name);
double config_real(const struct config *config, const char *name);

/* Nonzero when the value of a KNOB_CHOICE equals the word. */
int config_is(const struct config *config, const char *name, const char *word);

/* Checks one value against its knob. On -EINVAL, message (of size bytes) says in one line what is wrong and
 * what is allowed. */
int config_check(const struct knob *knob, const char *value, char *message, size_t size);

/* Number of settings, and the i-th of them. */
size_t config_count(const struct config *config);
const char *config_name_at(const struct config *config, size_t i);
const char *config_value_at(const struct config *config, size_t i);

/* The knob of that name in a table, or NULL. */
const struct knob *knob_find(const struct knob *knobs, const char *name);

#endif
