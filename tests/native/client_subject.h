/* One client of a service without any network: its replies are fed to it in pieces of every size, in blocks
 * of exactly their length, so that a sanitizer sees any look behind them. */
#ifndef KNEEPOINT_TESTS_CLIENT_SUBJECT_H
#define KNEEPOINT_TESTS_CLIENT_SUBJECT_H

#include "core/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures, checks;

static void check(int right, const char *what, const char *text, long got) {
    checks++;
    if (right)
        return;
    failures++;
    fprintf(stderr, "%s: \"%.60s\" gives %ld\n", what, text, got);
}

struct subject {
    const struct service_ops *ops;
    struct config *config;
    void *client, *session;
    struct random random;
    struct buffer asked;
};

static void begin(struct subject *subject, const char *service, const char *const (*settings)[2], int count) {
    *subject = (struct subject){.ops = registry_service(service)};
    subject->session = calloc(1, subject->ops->client_session_size + 1);
    if (!subject->session || config_create(&subject->config))
        abort();
    for (int i = 0; i < count; i++)
        config_set(subject->config, settings[i][0], settings[i][1]);
    config_fill(subject->config, subject->ops->knobs);
    random_seed(&subject->random, 1, 1);
    buffer_init(&subject->asked, 1 << 26);
    if (subject->ops->client_create(subject->config, 1, &subject->client) ||
        subject->ops->client_open(subject->client, subject->session))
        abort();
}

static void end(struct subject *subject) {
    subject->ops->client_close(subject->client, subject->session);
    if (subject->client)
        subject->ops->client_destroy(subject->client);
    config_destroy(subject->config);
    buffer_free(&subject->asked);
    free(subject->session);
}

static int ask(struct subject *subject) {
    buffer_consume(&subject->asked, buffer_length(&subject->asked));
    return subject->ops->ask(subject->client, subject->session, &subject->random, &subject->asked);
}

/* Feeds a reply, `piece` bytes more each time, in blocks of exactly their length. The first status that is
 * not 0, or 0 when the client still waits; *taken: the bytes used by then. */
static int feed(struct subject *subject, const char *reply, size_t length, size_t piece, size_t *taken) {
    size_t delivered = 0;
    int rc = 0;
    *taken = 0;
    while (!rc && delivered < length) {
        delivered += length - delivered < piece ? length - delivered : piece;
        size_t used = 1;
        while (!rc && used && *taken < delivered) {
            char *block = malloc(delivered - *taken);
            memcpy(block, reply + *taken, delivered - *taken);
            used = 0;
            rc = subject->ops->answer(subject->client, subject->session, block, delivered - *taken, &used,
                                      &subject->asked);
            *taken += used;
            free(block);
        }
    }
    return rc;
}

static inline void expect(struct subject *subject, const char *what, const char *reply, size_t length,
                          int expected) {
    for (size_t piece = 1; piece <= 10000; piece *= 100) {
        size_t taken;
        ask(subject);
        int rc = feed(subject, reply, length, piece, &taken);
        check(rc == expected && (rc == -EPROTO || taken == length), what, reply, rc);
    }
}

struct verdict {
    const char *reply;
    int status;
};

#endif
