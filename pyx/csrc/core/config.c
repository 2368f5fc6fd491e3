#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct setting {
    char *name;
    char *value;
};

struct config {
    struct setting *settings;
    size_t count;
};

int config_create(struct config **out) {
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : -ENOMEM;
}

void config_destroy(struct config *config) {
    if (!config)
        return;
    for (size_t i = 0; i < config->count; i++) {
        free(config->settings[i].name);
        free(config->settings[i].value);
    }
    free(config->settings);
    free(config);
}

static struct setting *find(const struct config *config, const char *name) {
    for (size_t i = 0; i < config->count; i++)
        if (!strcmp(config->settings[i].name, name))
            return &config->settings[i];
    return NULL;
}

int config_set(struct config *config, const char *name, const char *value) {
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    struct setting *old = find(config, name);
    if (old) {
        free(old->value);
        old->value = copy;
        return 0;
    }
    struct setting *grown = realloc(config->settings, (config->count + 1) * sizeof(*grown));
    if (!grown) {
        free(copy);
        return -ENOMEM;
    }
    config->settings = grown;
    char *key = strdup(name);
    if (!key) {
        free(copy);
        return -ENOMEM;
    }
    grown[config->count++] = (struct setting){key, copy};
    return 0;
}

int config_fill(struct config *config, const struct knob *knobs) {
    for (const struct knob *knob = knobs; knob && knob->name; knob++) {
        if (find(config, knob->name))
            continue;
        int rc = config_set(config, knob->name, knob->standard);
        if (rc)
            return rc;
    }
    return 0;
}

const char *config_text(const struct config *config, const char *name) {
    const struct setting *setting = find(config, name);
    return setting ? setting->value : NULL;
}

long config_int(const struct config *config, const char *name) {
    const char *text = config_text(config, name);
    return text ? strtol(text, NULL, 10) : 0;
}

double config_real(const struct config *config, const char *name) {
    const char *text = config_text(config, name);
    return text ? strtod(text, NULL) : 0;
}

int config_is(const struct config *config, const char *name, const char *word) {
    const char *text = config_text(config, name);
    return text && !strcmp(text, word);
}

static int allows_word(const char *allowed, const char *word) {
    size_t length = strlen(word);
    for (const char *at = allowed; *at;) {
        size_t span = strcspn(at, "|");
        if (span == length && !memcmp(at, word, length))
            return 1;
        at += span + (at[span] == '|');
    }
    return 0;
}

int config_check(const struct knob *knob, const char *value, char *message, size_t size) {
    if (knob->type == KNOB_TEXT)
        return 0;
    if (knob->type == KNOB_CHOICE) {
        if (*value && allows_word(knob->allowed, value))
            return 0;
        snprintf(message, size, "%s=%.64s: not one of %s", knob->name, value, knob->allowed);
        return -EINVAL;
    }
    double low = strtod(knob->allowed, NULL), high = strtod(strchr(knob->allowed, ':') + 1, NULL);
    char *end;
    errno = 0;
    double number = knob->type == KNOB_INT ? (double)strtol(value, &end, 10) : strtod(value, &end);
    if (end == value || *end || errno == ERANGE || !isfinite(number)) {
        snprintf(message, size, "%s=%.64s: not %s", knob->name, value,
                 knob->type == KNOB_INT ? "a whole number" : "a number");
        return -EINVAL;
    }
    if (number < low || number > high) {
        snprintf(message, size, "%s=%.64s: outside %s%s%s", knob->name, value, knob->allowed,
                 *knob->unit ? " " : "", knob->unit);
        return -EINVAL;
    }
    return 0;
}

size_t config_count(const struct config *config) {
    return config->count;
}

const char *config_name_at(const struct config *config, size_t i) {
    return config->settings[i].name;
}

const char *config_value_at(const struct config *config, size_t i) {
    return config->settings[i].value;
}

const struct knob *knob_find(const struct knob *knobs, const char *name) {
    for (const struct knob *knob = knobs; knob && knob->name; knob++)
        if (!strcmp(knob->name, name))
            return knob;
    return NULL;
}
