/* Fuzz target: the words that start a server or a client, and the text and the file that a service is given.
 *
 * What is promised: no sanitizer report; a value is taken or refused with one line that says why; a number
 * that is taken lies in its range; client_create refuses what client_check refuses; create says why it
 * refuses.
 *
 *     settings --service=NAME [libFuzzer's words]
 *
 * The bytes are lines, each a word of the command line, up to an empty line; then the content of the file
 * that takes the place of every name of one. Nothing steers. Writes that file into the working directory. */
#define _GNU_SOURCE
#include "core/arguments.h"
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

enum { WORDS = 40, LARGEST = 2000 };

static const char content[] = "settings.file";

int LLVMFuzzerInitialize(int *count, char ***words) {
    choose_service(count, *words);
    return 0;
}

static void write_file(const char *bytes, size_t length) {
    int fd = open(content, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length)
        abort();
    close(fd);
}

/* The words, each a copy of its own, and the bytes behind them. */
static int read_words(const char *bytes, size_t length, char **words, const char **rest) {
    int count = 0;
    const char *end = bytes + length;
    words[count++] = need(strdup("kneepoint-server"));
    while (bytes < end && count < WORDS) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        size_t size = newline ? (size_t)(newline - bytes) : (size_t)(end - bytes);
        const char *word = bytes;
        bytes += size + (newline != NULL);
        if (!size)
            break;
        words[count++] = need(strndup(word, size));
    }
    *rest = bytes;
    return count;
}

static int is_line(const char *message) {
    return *message && !strchr(message, '\n');
}

static void check_number(const struct knob *knob, const struct config *config) {
    char *rest;
    double low = strtod(knob->allowed, &rest), high = strtod(rest + 1, NULL);
    double number =
        knob->type == KNOB_INT ? (double)config_int(config, knob->name) : config_real(config, knob->name);
    require(isfinite(number) && number >= low && number <= high, "%s=%s was taken", knob->name,
            config_text(config, knob->name));
}

/* As a host checks before it starts anything. */
static int check_settings(struct config *config, const struct knob *const *tables) {
    char message[512] = "";
    for (size_t i = 0; i < config_count(config); i++) {
        const struct knob *knob = NULL;
        for (size_t t = 0; tables[t] && !knob; t++)
            knob = knob_find(tables[t], config_name_at(config, i));
        if (!knob)
            return -EINVAL;
        int rc = config_check(knob, config_value_at(config, i), message, sizeof(message));
        require(rc == 0 || (rc == -EINVAL && is_line(message)), "%s: refused by %d", knob->name, rc);
        if (rc)
            return rc;
        if (knob->type == KNOB_INT || knob->type == KNOB_REAL)
            check_number(knob, config);
    }
    for (; *tables; tables++)
        if (config_fill(config, *tables))
            abort();
    return 0;
}

/* What is text is read by the service; what names a file gets ours. Nonzero: there is text. */
static int prepare(struct config *config) {
    int texts = 0;
    for (const struct knob *knob = ops->knobs; knob->name; knob++) {
        texts |= knob->type == KNOB_TEXT;
        if (knob->type == KNOB_TEXT && !strncmp(knob->allowed, "path of a file", 14) &&
            *config_text(config, knob->name) && config_set(config, knob->name, content))
            abort();
        if (knob->type == KNOB_INT && config_int(config, knob->name) > LARGEST &&
            config_set(config, knob->name, knob->standard))
            abort(); /* a large number takes long, and nothing else */
    }
    return texts;
}

static void try_service(const struct config *config) {
    char message[512] = "";
    void *service = NULL, *client = NULL;
    if (ops->create) {
        int rc = ops->create(config, 1, message, sizeof(message), &service);
        require(rc <= 0 && (!rc || rc != -EINVAL || is_line(message)), "create gives %d, \"%s\"", rc,
                message);
        if (!rc)
            ops->destroy(service);
    }
    *message = 0;
    int checked = ops->client_check ? ops->client_check(config, message, sizeof(message)) : 0;
    require(!checked || (checked == -EINVAL && is_line(message)), "client_check gives %d, \"%s\"", checked,
            message);
    int rc = ops->client_create(config, 1, &client);
    require(!rc || rc == -EINVAL, "client_create gives %d", rc);
    require(!checked || rc, "client_create takes what client_check refuses: %s", message);
    require(checked || !rc || !ops->client_check, "client_create refuses what client_check takes");
    if (!rc)
        ops->client_destroy(client);
}

static void read_number(const char *word) {
    int64_t number;
    if (!arguments_number(word, 65535, &number))
        require(number >= 0 && number <= 65535, "the port %" PRId64 " was taken", number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *words[WORDS], *given[WORDS];
    const char *rest, *name = NULL, *server = NULL, *host = NULL, *port = "0";
    const char **const names[] = {&name, &server, NULL};
    const struct argument_option options[] = {{"--host", &host}, {"--port", &port}, {0}};
    const struct knob *const tables[] = {ops->knobs, server_common_knobs, NULL};
    struct config *config;
    int count = read_words((const char *)data, size, words, &rest);
    memcpy(given, words, sizeof(words));
    if (config_create(&config))
        abort();
    if (!arguments_read(count, words, names, options, config)) {
        require(name && server, "a name is missing");
        read_number(port);
        if (!check_settings(config, tables) && prepare(config)) {
            write_file(rest, size - (size_t)(rest - (const char *)data));
            try_service(config);
        }
    }
    config_destroy(config);
    for (int i = 0; i < count; i++)
        free(given[i]);
    return 0;
}
