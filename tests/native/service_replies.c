/* What the services stock and prime answer, byte for byte, to requests that are good, bad, cut and spoilt;
 * what they refuse to start with; and what they leave in the stock file.
 *
 *     service_replies FOLDER
 *
 * FOLDER is an empty folder to write in. Links with all of pyx/csrc but main.c. Exit status 1, and one line
 * for each failure. */
#define _GNU_SOURCE
#include "core/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failures, checks;
static const char *folder;

static void check(int right, const char *what, const char *got) {
    checks++;
    if (right)
        return;
    failures++;
    fprintf(stderr, "%s: got \"%s\"\n", what, got);
}

struct subject {
    const struct service_ops *ops;
    struct config *config;
    struct counters *counters;
    void *service;
    char message[512];
};

/* settings: "name=value name=value". What create returns. */
static int begin(struct subject *subject, const char *service, const char *settings) {
    *subject = (struct subject){.ops = registry_service(service)};
    subject->counters = aligned_alloc(_Alignof(struct counters), counters_size());
    char *copy = strdup(settings), *rest = copy, *word;
    if (!subject->counters || !copy || config_create(&subject->config))
        abort();
    memset(subject->counters, 0, counters_size());
    while ((word = strsep(&rest, " "))) {
        char *equals = strchr(word, '=');
        if (!equals)
            continue;
        *equals = 0;
        config_set(subject->config, word, equals + 1);
    }
    free(copy);
    config_fill(subject->config, subject->ops->knobs);
    return subject->ops->create(subject->config, 4, subject->message, sizeof(subject->message),
                                &subject->service);
}

static void end(struct subject *subject, int started) {
    if (started && subject->ops->save && subject->ops->save(subject->service))
        check(0, "saving at the end", "a failure");
    if (started)
        subject->ops->destroy(subject->service);
    config_destroy(subject->config);
    free(subject->counters);
}

/* Everything that one connection gets back for these bytes, delivered `piece` at a time. *rc: what ended it,
 * or 0. */
static struct buffer converse(struct subject *subject, const char *bytes, size_t length, size_t piece,
                              int *rc) {
    const struct service_ops *ops = subject->ops;
    void *session = calloc(1, ops->session_size + 1);
    struct counter_block *me = counters_claim(subject->counters, ROLE_WORKER);
    struct buffer in, out;
    buffer_init(&in, 1 << 26);
    buffer_init(&out, 1 << 26);
    ops->open(subject->service, session);
    *rc = 0;
    for (size_t at = 0; at < length && !*rc; at += piece) {
        buffer_put(&in, bytes + at, length - at < piece ? length - at : piece);
        size_t used = 1;
        while (!*rc && used && buffer_length(&in)) {
            used = 0;
            *rc = ops->parse(subject->service, session, buffer_data(&in), buffer_length(&in), &used, &out);
            buffer_consume(&in, used);
            if (*rc == 1) {
                ops->run(subject->service, session, 0, UINT32_MAX, me);
                *rc = ops->reply(subject->service, session, &out);
            }
        }
    }
    ops->close(subject->service, session);
    counters_release(me);
    free(session);
    buffer_free(&in);
    return out;
}

static void expect_bytes(struct subject *subject, const char *what, const char *bytes, size_t length,
                         const char *expected, size_t expected_length, int expected_rc) {
    static const size_t pieces[] = {1, 3, 1 << 26};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        int rc;
        struct buffer out = converse(subject, bytes, length, pieces[i], &rc);
        int same = buffer_length(&out) == expected_length &&
                   (!expected_length || !memcmp(buffer_data(&out), expected, expected_length));
        char got[300];
        snprintf(got, sizeof(got), "%.*s\" (%zu bytes, status %d)",
                 (int)strnlen(buffer_length(&out) ? buffer_data(&out) : "", buffer_length(&out)),
                 buffer_length(&out) ? buffer_data(&out) : "", buffer_length(&out), rc);
        check(same && rc == expected_rc, what, got);
        buffer_free(&out);
    }
}

static void expect(struct subject *subject, const char *request, const char *expected, int rc) {
    expect_bytes(subject, request, request, strlen(request), expected, strlen(expected), rc);
}

static const char *path_of(const char *name) {
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(path_of(name), "w");
    if (!file || fputs(text, file) < 0 || fclose(file))
        abort();
}

static void expect_file(const char *what, const char *name, const char *expected) {
    char text[4096] = "";
    FILE *file = fopen(path_of(name), "r");
    size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    text[length] = 0;
    if (file)
        fclose(file);
    check(!strcmp(text, expected), what, text);
}

#define COMMANDS "error: the commands are show, buy ID N, sell ID N and exit\n"
#define NUMBERS "error: ID and N are whole numbers, not negative\n"
#define LARGE "error: a number is larger than 9223372036854775807\n"
#define LONG "error: a line is longer than 256 bytes\n"
#define STOCKS "3 10 500\n1 0 7\n20 9223372036854775807 1\n"

/* None of these changes the table. */
static void harmless(struct subject *stock) {
    static const char *const cases[][2] = {
        {"show\n", STOCKS "\n"},
        {"show\r\n", STOCKS "\n"},
        {"  show \t \n", STOCKS "\n"},
        {"show\nshow\n", STOCKS "\n" STOCKS "\n"},
        {"buy 1 1\n", "Not enough left stock\n"},
        {"buy 3 11\n", "Not enough left stock\n"},
        {"buy 3 0\n", "[buy] success\n"},
        {"buy 2 1\n", "error: there is no stock 2\n"},
        {"sell 2 1\n", "error: there is no stock 2\n"},
        {"sell 20 1\n", "error: stock 20 cannot hold so many more\n"},
        {"sell 3 9223372036854775807\n", "error: stock 3 cannot hold so many more\n"},
        {"buy 3 9223372036854775807\n", "Not enough left stock\n"},
        {"buy 3 9223372036854775808\n", LARGE},
        {"sell 3 99999999999999999999999999\n", LARGE},
        {"buy 18446744073709551619 1\n", LARGE},
        {"buy 3 -1\n", NUMBERS},
        {"sell 3 -1\n", NUMBERS},
        {"buy +3 1\n", NUMBERS},
        {"buy three 1\n", NUMBERS},
        {"buy 3 1x\n", NUMBERS},
        {"buy 3 1.5\n", NUMBERS},
        {"buy 3 99999999999999999999x\n", NUMBERS},
        {"buy 3\n", COMMANDS},
        {"buy\n", COMMANDS},
        {"buy 3 1 1\n", COMMANDS},
        {"show 3\n", COMMANDS},
        {"exit now\n", COMMANDS},
        {"Show\n", COMMANDS},
        {"shows\n", COMMANDS},
        {"\n", COMMANDS},
        {"\r\n", COMMANDS},
        {"sell 3 1", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        expect(stock, cases[i][0], cases[i][1], 0);
        expect(stock, "show\n", STOCKS "\n", 0);
    }
    expect(stock, "exit\nshow\n", "exit\n", 1);
    expect_bytes(stock, "zeros before a line", "\0\0show\n\0\0\0exit\n", 15, STOCKS "\nexit\n",
                 strlen(STOCKS) + 6, 1);
    char text[2000];
    static const int lengths[] = {256, 257, 258, 1500};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        snprintf(text, sizeof(text), "buy 3 %0*d\nexit\n", lengths[i] - 6, 0);
        expect(stock, text, lengths[i] > 256 ? LONG "exit\n" : "[buy] success\nexit\n", 1);
    }
    expect(stock, "show\n", STOCKS "\n", 0);
}

static void stock_replies(void) {
    static const char *const locks[] = {"readers_writers", "rwlock", "mutex", "global", "seqlock", "none"};
    static const char *const indices[] = {"bst", "balanced", "hash", "array"};
    for (int i = 0; i < 6; i++) {
        struct subject stock;
        char settings[5000];
        write_file("stock.txt", STOCKS);
        snprintf(settings, sizeof(settings), "table=%s lock=%s index=%s unsafe=yes", path_of("stock.txt"),
                 locks[i], indices[i % 4]);
        if (begin(&stock, "stock", settings)) {
            check(0, settings, stock.message);
            end(&stock, 0);
            continue;
        }
        harmless(&stock);
        expect_file("an untouched table", "stock.txt", STOCKS);
        int rc;
        struct buffer out = converse(&stock, "buy 3 4\nsell 1 6\nbuy 20 9223372036854775807\n", 44, 5, &rc);
        const char orders[] = "[buy] success\n[sell] success\n[buy] success\n";
        check(buffer_length(&out) == strlen(orders) && !memcmp(buffer_data(&out), orders, strlen(orders)),
              "orders", "others");
        buffer_free(&out);
        expect_file("written when the last client left", "stock.txt", "3 6 500\n1 6 7\n20 0 1\n");
        expect(&stock, "show\n", "3 6 500\n1 6 7\n20 0 1\n\n", 0);
        end(&stock, 1);
        expect_file("written at the end", "stock.txt", "3 6 500\n1 6 7\n20 0 1\n");
        check(access(path_of("stock.txt.partial"), F_OK) != 0, "the partial file", "left behind");
    }
}

/* A connection pays for what it buys from funds of its own. */
static void accounts(void) {
    static const char *const cases[][2] = {
        {"funds\n", "[funds] 5000\n"},
        {"buy 3 10\nfunds\n", "[buy] success\n[funds] 0\n"},
        {"sell 3 10\nfunds\n", "[sell] success\n[funds] 10000\n"},
        {"buy 3 11\nfunds\n", "Not enough funds\n[funds] 5000\n"},
        {"buy 1 1\nfunds\n", "Not enough left stock\n[funds] 5000\n"},
        {"buy 2 1\nfunds\n", "error: there is no stock 2\n[funds] 5000\n"},
        {"buy 3 9223372036854775807\n", "Not enough funds\n"},
        {"sell 1 9223372036854775807\nfunds\n", "error: the funds cannot hold so much more\n[funds] 5000\n"},
        {"sell 20 1\nfunds\n", "error: stock 20 cannot hold so many more\n[funds] 5000\n"},
        {"funds 1\n", "error: the commands are show, buy ID N, sell ID N, funds and exit\n"},
        {"fund\n", "error: the commands are show, buy ID N, sell ID N, funds and exit\n"},
    };
    struct subject stock;
    char settings[5000];
    write_file("stock.txt", "3 10 500\n1 0 7\n20 9223372036854775807 1\n");
    snprintf(settings, sizeof(settings), "accounts=on funds=5000 table=%s", path_of("stock.txt"));
    check(!begin(&stock, "stock", settings), settings, stock.message);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (size_t piece = 1; piece < 100; piece *= 9) {
            int rc;
            struct buffer out = converse(&stock, cases[i][0], strlen(cases[i][0]), piece, &rc);
            buffer_put(&out, "", 1);
            check(!rc && !strcmp(buffer_data(&out), cases[i][1]), cases[i][0], buffer_data(&out));
            buffer_free(&out);
            /* What an order moved is moved back. */
            const char *undo = i == 1 ? "sell 3 10\n" : "buy 3 10\n";
            if (i == 1 || i == 2) {
                out = converse(&stock, undo, strlen(undo), 99, &rc);
                buffer_free(&out);
            }
        }
    expect(&stock, "show\n", STOCKS "\n", 0);
    end(&stock, 1);
    check(!begin(&stock, "stock", ""), "no accounts", stock.message);
    expect(&stock, "funds\n", COMMANDS, 0);
    end(&stock, 1);
}

static void padded(const char *request, const char *reply, struct subject *stock, int rc) {
    char page[8192] = "";
    snprintf(page, sizeof(page), "%s", reply);
    expect_bytes(stock, request, request, strlen(request), page, sizeof(page), rc);
}

static void padded_replies(void) {
    struct subject stock;
    char settings[5000];
    write_file("stock.txt", "3 10 500\n1 0 7\n");
    snprintf(settings, sizeof(settings), "dialect=padded table=%s", path_of("stock.txt"));
    check(!begin(&stock, "stock", settings), settings, stock.message);
    padded("show\n", "3 10 500\n1 0 7\n", &stock, 0);
    padded("buy 1 1\n", "Not enough left stock\n", &stock, 0);
    padded("buy 3 0\n", "[buy] success\n", &stock, 0);
    padded("what\n", COMMANDS, &stock, 0);
    padded("exit\n", "exit\n", &stock, 1);
    end(&stock, 1);
}

/* A padded show must fit for as long as the server runs, so what sells can add is bounded from the start. */
static void padded_limits(void) {
    struct subject stock;
    check(begin(&stock, "stock", "dialect=padded stocks=500") == -EINVAL, "500 padded stocks", "started");
    check(!strncmp(stock.message, "dialect=padded: a show takes ", 29), "500 padded stocks", stock.message);
    end(&stock, 0);
    char text[64 * 500] = "", settings[5000];
    for (int i = 0; i < 400; i++)
        sprintf(text + strlen(text), "%d 5 1\n", i + 100);
    write_file("many.txt", text);
    snprintf(settings, sizeof(settings), "dialect=padded table=%s", path_of("many.txt"));
    check(!begin(&stock, "stock", settings), settings, stock.message);
    int rc;
    for (int i = 0; i < 400; i++) {
        char request[64];
        for (long amount = 1000000000000000000; amount; amount /= 10) {
            snprintf(request, sizeof(request), "sell %d %ld\n", i + 100, amount);
            struct buffer out = converse(&stock, request, strlen(request), 64, &rc);
            check(buffer_length(&out) == 8192, request, "not 8192 bytes");
            buffer_free(&out);
        }
    }
    struct buffer out = converse(&stock, "show\n", 5, 64, &rc);
    size_t length = strnlen(buffer_data(&out), 8192);
    char got[64];
    snprintf(got, sizeof(got), "%zu of %zu bytes", length, buffer_length(&out));
    check(buffer_length(&out) == 8192 && length < 8192 && length > 7500, "a padded show after many sells",
          got);
    buffer_free(&out);
    end(&stock, 1);
}

static void refusals(void) {
    static const char *const cases[][2] = {
        {"1 2 3\n4 5\n", ":2: not \"<id> <left> <price>\", three whole numbers, none negative"},
        {"1 2 3\n\n4 five 6\n", ":3: not \"<id> <left> <price>\", three whole numbers, none negative"},
        {"1 -2 3\n", ":1: not \"<id> <left> <price>\", three whole numbers, none negative"},
        {"1 2 3 4\n", ":1: not \"<id> <left> <price>\", three whole numbers, none negative"},
        {"1 9223372036854775808 3\n", ":1: a number is larger than 9223372036854775807"},
        {"7 2 3\n1 1 1\n\n7 5 6\n", ":4: stock 7 already stands on line 1"},
        {"", ":1: the file holds no stock"},
        {"\n\n", ":3: the file holds no stock"},
    };
    static const char *const settled[][2] = {
        {"lock=none",
         "lock=none: 4 threads would overwrite each other's orders; take a lock, or say unsafe=yes"},
        {"lock=none processes=yes",
         "lock=none: 4 processes would overwrite each other's orders; take a lock, or say unsafe=yes"},
        {"lock=rwlock processes=yes",
         "lock=rwlock: it would stay held by a process that is killed (pthread has no "
         "robust readers-writers lock); processes can use mutex, global or seqlock"},
        {"lock=readers_writers processes=yes",
         "lock=readers_writers: it would stay held by a process that is killed (semaphores do not know their "
         "holders); processes can use mutex, global or seqlock"},
        {"table=/dev/zero", "/dev/zero: not a regular file"},
        {"table=/", "/: not a regular file"},
    };
    struct subject stock;
    char settings[5000], expected[5000];
    for (size_t i = 0; i < sizeof(settled) / sizeof(*settled); i++) {
        check(begin(&stock, "stock", settled[i][0]) == -EINVAL, settled[i][0], "started");
        check(!strcmp(stock.message, settled[i][1]), settled[i][0], stock.message);
        end(&stock, 0);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_file("bad.txt", cases[i][0]);
        snprintf(settings, sizeof(settings), "table=%s", path_of("bad.txt"));
        snprintf(expected, sizeof(expected), "%.300s%s", path_of("bad.txt"), cases[i][1]);
        check(begin(&stock, "stock", settings) < 0, expected, "started");
        check(!strcmp(stock.message, expected), expected, stock.message);
        end(&stock, 0);
        expect_file("a refused table", "bad.txt", cases[i][0]);
    }
    snprintf(settings, sizeof(settings), "table=%s", path_of("none.txt"));
    check(begin(&stock, "stock", settings) == -ENOENT, settings, "started");
    end(&stock, 0);
    static const char *const mixes[] = {"mix=",        "mix=show:0",   "mix=hold:1",
                                        "mix=show:-1", "mix=show:nan", "mix=buy:1;"};
    for (size_t i = 0; i < sizeof(mixes) / sizeof(*mixes); i++) {
        check(begin(&stock, "stock", mixes[i]) == -EINVAL, mixes[i], "started");
        end(&stock, 0);
    }
}

/* A link keeps pointing at the file, and the file keeps its mode. */
static void keeps_file(void) {
    struct subject stock;
    struct stat link, file;
    char settings[5000], target[4096];
    write_file("real.txt", "1 10 1\r\n2 5 1");
    snprintf(target, sizeof(target), "%s", path_of("real.txt"));
    chmod(target, 0640);
    if (symlink("real.txt", path_of("link.txt")))
        abort();
    snprintf(settings, sizeof(settings), "table=%s", path_of("link.txt"));
    check(!begin(&stock, "stock", settings), settings, stock.message);
    int rc;
    struct buffer out = converse(&stock, "buy 1 1\n", 8, 8, &rc);
    buffer_free(&out);
    end(&stock, 1);
    expect_file("behind a link", "real.txt", "1 9 1\n2 5 1\n");
    int gone = lstat(path_of("link.txt"), &link) || stat(target, &file);
    check(!gone && S_ISLNK(link.st_mode) && (file.st_mode & 0777) == 0640, "a link to a file of mode 640",
          "not kept");
}

static void put_number(char *at, uint32_t number) {
    for (int i = 0; i < 4; i++)
        at[i] = (char)(number >> (24 - 8 * i));
}

static void prime_replies(void) {
    static const uint32_t numbers[] = {
        0,  1,  2,   3,     4,     5,          6,          7,          9,          25,
        35, 49, 121, 65521, 65537, 2147483647, 4294836225, 4294049777, 4294967291, 4294967295};
    static const char answers[] = {0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0};
    enum { COUNT = sizeof(numbers) / sizeof(*numbers), SIZE = 4 + 4 * COUNT };
    char request[2 * SIZE], expected[2 * (4 + COUNT)];
    put_number(request, COUNT);
    for (int i = 0; i < COUNT; i++)
        put_number(request + 4 + 4 * i, numbers[i]);
    memcpy(request + SIZE, request, SIZE);
    put_number(expected, COUNT);
    memcpy(expected + 4, answers, COUNT);
    memcpy(expected + 4 + COUNT, expected, 4 + COUNT);
    struct subject prime;
    check(!begin(&prime, "prime", ""), "prime", prime.message);
    expect_bytes(&prime, "two arrays", request, 2 * SIZE, expected, sizeof(expected), 0);
    expect_bytes(&prime, "a short array", request, SIZE - 1, expected, 4, 0);
    expect_bytes(&prime, "a part of a count", request, 3, "", 0, 0);
    static const uint32_t bad[] = {0, 1000001, 4294967295};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        put_number(request, bad[i]);
        expect_bytes(&prime, "a count out of range", request, SIZE, "", 0, -EPROTO);
    }
    put_number(request, 1000000);
    expect_bytes(&prime, "the largest count", request, SIZE, request, 4, 0);
    end(&prime, 1);
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: service_replies FOLDER\n");
        return 2;
    }
    folder = words[1];
    stock_replies();
    accounts();
    padded_replies();
    padded_limits();
    refusals();
    keeps_file();
    prime_replies();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
