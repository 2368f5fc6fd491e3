#include "arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int take_option(const struct argument_option *options, const char *word, const char *value) {
    for (; options->name; options++) {
        if (!strcmp(options->name, word)) {
            *options->value = value;
            return 0;
        }
    }
    return -EINVAL;
}

int arguments_read(int count, char **words, const char **const *names, const struct argument_option *options,
                   struct config *config) {
    for (int i = 1; i < count; i++) {
        char *equals = strchr(words[i], '=');
        int rc = 0;
        if (!strncmp(words[i], "--", 2)) {
            rc = i + 1 < count ? take_option(options, words[i], words[i + 1]) : -EINVAL;
            i++;
        } else if (equals) {
            *equals = 0;
            rc = config_set(config, words[i], equals + 1);
        } else if (*names) {
            **names++ = words[i];
        } else {
            rc = -EINVAL;
        }
        if (rc)
            return rc;
    }
    return *names ? -EINVAL : 0;
}

int arguments_number(const char *text, int64_t high, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && !errno && *out >= 0 && *out <= high ? 0 : -EINVAL;
}
