/* Every registered service that serves against its own client, in memory: bytes cut anywhere, tasks in any
 * order and in several threads, garbage in between, for every combination of the service's choices.
 *
 *     service_loop [name=value ...]
 *
 * rounds (default 200), threads (default 4), seed (default 1) and service (default all) steer the program;
 * any other setting is given to the services that have it. Links with all of pyx/csrc but main.c. Exit status
 * 1, and one line that says what and where, at the first failure. */
#define _GNU_SOURCE
#include "core/clock.h"
#include "core/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_LIMIT = 64 << 20, THREADS_LIMIT = 64, LEDGER_LIMIT = 100000, TASKS_LIMIT = 2000 };

struct options {
    long rounds, threads, seed;
    const char *service;
    char **settings;
    int count;
};

/* A service, its client, and the choices that both were made with. */
struct fixture {
    const struct options *options;
    const struct service_ops *ops;
    struct config *config;
    void *service, *client;
    struct counters *counters;
    char label[256];
};

/* One connection: two sessions and the bytes between them. */
struct link {
    const struct fixture *fixture;
    void *session, *asker;
    struct buffer request, reply;   /* written, not yet delivered */
    struct buffer inbox, answering; /* delivered, not yet taken */
    struct random random;
    struct counter_block *me;
    int helped; /* run the tasks of one request in two threads */
    uint64_t exchanges;
};

static void fail(const struct fixture *fixture, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", fixture ? fixture->label : "service_loop");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    fflush(stderr);
    _Exit(1);
}

static void *need(void *memory) {
    if (!memory)
        fail(NULL, "out of memory");
    return memory;
}

static void link_open(struct link *link, const struct fixture *fixture, uint64_t stream) {
    const struct service_ops *ops = fixture->ops;
    *link = (struct link){.fixture = fixture};
    link->session = need(calloc(1, ops->session_size + 1));
    link->asker = need(calloc(1, ops->client_session_size + 1));
    buffer_init(&link->request, BUFFER_LIMIT);
    buffer_init(&link->reply, BUFFER_LIMIT);
    buffer_init(&link->inbox, BUFFER_LIMIT);
    buffer_init(&link->answering, BUFFER_LIMIT);
    random_seed(&link->random, (uint64_t)fixture->options->seed, stream);
    link->me = counters_claim(fixture->counters, ROLE_WORKER);
    if (ops->open(fixture->service, link->session) || ops->client_open(fixture->client, link->asker))
        fail(fixture, "open failed");
}

static void link_close(struct link *link) {
    const struct fixture *fixture = link->fixture;
    fixture->ops->client_close(fixture->client, link->asker);
    fixture->ops->close(fixture->service, link->session);
    counters_release(link->me);
    free(link->session);
    free(link->asker);
    buffer_free(&link->request);
    buffer_free(&link->reply);
    buffer_free(&link->inbox);
    buffer_free(&link->answering);
}

/* Moves the next few bytes: one at a time while little is left, so that every border is met. */
static void deliver(struct link *link, struct buffer *from, struct buffer *to, int cut) {
    size_t left = buffer_length(from), piece = left;
    if (cut == 0)
        piece = left <= 512 ? 1 : 1 + random_below(&link->random, 256);
    else if (cut == 1)
        piece = 1 + random_below(&link->random, left);
    if (buffer_put(to, buffer_data(from), piece))
        fail(link->fixture, "buffer full");
    buffer_consume(from, piece);
}

/* A call sees its bytes in a block of exactly their length, so that a sanitizer sees any look behind them. */
static char *exact(const struct buffer *buffer) {
    return memcpy(need(malloc(buffer_length(buffer))), buffer_data(buffer), buffer_length(buffer));
}

static int parse(struct link *link) {
    const struct fixture *fixture = link->fixture;
    size_t used = 0, length = buffer_length(&link->inbox);
    char *bytes = exact(&link->inbox);
    int rc = fixture->ops->parse(fixture->service, link->session, bytes, length, &used, &link->reply);
    free(bytes);
    if (used > length)
        fail(fixture, "parse used %zu of %zu bytes", used, length);
    buffer_consume(&link->inbox, used);
    if (!rc && !used)
        return -EAGAIN;
    return rc;
}

static int answer(struct link *link) {
    const struct fixture *fixture = link->fixture;
    size_t used = 0, length = buffer_length(&link->answering);
    char *bytes = exact(&link->answering);
    int rc = fixture->ops->answer(fixture->client, link->asker, bytes, length, &used, &link->request);
    free(bytes);
    if (used > length)
        fail(fixture, "answer used %zu of %zu bytes", used, length);
    buffer_consume(&link->answering, used);
    if (!rc && !used)
        return -EAGAIN;
    return rc;
}

struct share {
    struct link *link;
    const uint32_t *tasks;
    uint32_t first, count, chunk;
    struct counter_block *me;
};

static void *run_share(void *argument) {
    struct share *share = argument;
    const struct fixture *fixture = share->link->fixture;
    for (uint32_t i = share->first; i < share->count; i += 2)
        fixture->ops->run(fixture->service, share->link->session, share->tasks[i], share->chunk, share->me);
    return NULL;
}

static void run_tasks(struct link *link, const uint32_t *tasks, uint32_t count, uint32_t chunk) {
    const struct fixture *fixture = link->fixture;
    struct share even = {link, tasks, 0, count, chunk, link->me}, odd = even;
    odd.first = 1;
    if (!link->helped) {
        run_share(&even);
        run_share(&odd);
        return;
    }
    pthread_t thread;
    odd.me = counters_claim(fixture->counters, ROLE_WORKER);
    if (pthread_create(&thread, NULL, run_share, &odd))
        fail(fixture, "no thread");
    run_share(&even);
    pthread_join(thread, NULL);
    counters_release(odd.me);
}

/* Runs the request cut at random, its tasks shuffled. What reply returns. */
static int serve(struct link *link) {
    const struct fixture *fixture = link->fixture;
    uint32_t chunk = random_below(&link->random, 4)   ? 1 + (uint32_t)random_below(&link->random, 100)
                     : random_below(&link->random, 2) ? 1000000
                                                      : UINT32_MAX;
    uint32_t count = fixture->ops->split(fixture->service, link->session, chunk);
    if (count > TASKS_LIMIT) {
        chunk = UINT32_MAX;
        count = fixture->ops->split(fixture->service, link->session, chunk);
    }
    if (!count)
        fail(fixture, "no task with chunk %" PRIu32, chunk);
    uint32_t *tasks = need(malloc(count * sizeof(*tasks)));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = (uint32_t)random_below(&link->random, i + 1);
        tasks[i] = tasks[other];
        tasks[other] = i;
    }
    run_tasks(link, tasks, count, chunk);
    free(tasks);
    return fixture->ops->reply(fixture->service, link->session, &link->reply);
}

/* Delivers what is written either way until nothing moves. 1: the answer is complete and right. */
static int shuttle(struct link *link, int cut) {
    const struct fixture *fixture = link->fixture;
    int rc, done = 0;
    while (buffer_length(&link->request) || buffer_length(&link->reply)) {
        if (buffer_length(&link->request))
            deliver(link, &link->request, &link->inbox, cut);
        while (buffer_length(&link->inbox) && (rc = parse(link)) != -EAGAIN) {
            if (rc < 0)
                fail(fixture, "parse refuses its own client's request: %d", rc);
            if (rc == 1 && (rc = serve(link)))
                fail(fixture, "reply gives %d", rc);
        }
        if (buffer_length(&link->inbox) > fixture->ops->max_request)
            fail(fixture, "parse waits with %zu bytes, more than max_request", buffer_length(&link->inbox));
        if (buffer_length(&link->reply))
            deliver(link, &link->reply, &link->answering, cut);
        while (buffer_length(&link->answering) && (rc = answer(link)) != -EAGAIN) {
            if (rc < 0 || done)
                fail(fixture, done ? "bytes behind the reply" : "answer refuses the service's reply: %d", rc);
            done = rc;
        }
    }
    return done;
}

static void exchange(struct link *link) {
    const struct fixture *fixture = link->fixture;
    int operation = fixture->ops->ask(fixture->client, link->asker, &link->random, &link->request), names = 0;
    while (fixture->ops->operations[names])
        names++;
    if (operation < 0 || operation >= names)
        fail(fixture, "ask gives %d", operation);
    if (shuttle(link, (int)random_below(&link->random, 3)) != 1)
        fail(fixture, "%s: no complete reply", fixture->ops->operations[operation]);
    if (buffer_length(&link->inbox) || buffer_length(&link->answering))
        fail(fixture, "%s: bytes are left over", fixture->ops->operations[operation]);
    link->exchanges++;
}

static void *exchange_all(void *argument) {
    struct link *link = argument;
    for (long i = 0; i < link->fixture->options->rounds; i++)
        exchange(link);
    return NULL;
}

static uint64_t in_threads(struct fixture *fixture) {
    long count = fixture->options->threads;
    pthread_t thread[THREADS_LIMIT];
    struct link link[THREADS_LIMIT];
    uint64_t exchanges = 0;
    for (long i = 0; i < count; i++)
        link_open(&link[i], fixture, (uint64_t)i + 1);
    for (long i = 0; i < count; i++)
        if (pthread_create(&thread[i], NULL, exchange_all, &link[i]))
            fail(fixture, "no thread");
    for (long i = 0; i < count; i++) {
        pthread_join(thread[i], NULL);
        exchanges += link[i].exchanges;
        link_close(&link[i]);
    }
    return exchanges;
}

/* The client's own request, spoilt; or no request at all. */
static void spoil(struct link *link) {
    const struct fixture *fixture = link->fixture;
    struct random *random = &link->random;
    static const char *const words[] = {"\n",  "\r\n", "\0", "show", "buy", " ", "-1", "99999999999999999999",
                                        "exit"};
    size_t kind = random_below(random, 4);
    if (kind)
        fixture->ops->ask(fixture->client, link->asker, random, &link->request);
    size_t length = buffer_length(&link->request);
    for (size_t i = 0; kind == 1 && i < 1 + length / 4; i++)
        link->request.bytes[link->request.start + random_below(random, length)] ^=
            (char)(1 << random_below(random, 8));
    if (kind == 2 && length > 1)
        link->request.end -= random_below(random, length - 1);
    for (size_t i = 0; !kind && i < random_below(random, 12); i++) {
        const char *word = words[random_below(random, sizeof(words) / sizeof(*words))];
        buffer_put(&link->request, word, *word ? strlen(word) : 1);
    }
    for (size_t i = kind == 3 ? random_below(random, 2000) : 0; i; i--) {
        char byte = (char)random_next(random);
        buffer_put(&link->request, &byte, 1);
    }
}

/* No garbage may crash the service, hang it, or make it hold more than it declared; a violation ends the
 * session. */
static void fuzz(struct fixture *fixture) {
    struct link link;
    link_open(&link, fixture, 1000);
    uint64_t stream = 1001;
    for (long i = 0; i < fixture->options->rounds; i++) {
        spoil(&link);
        int rc = 0, cut = (int)random_below(&link.random, 3);
        while (buffer_length(&link.request) && rc != 1 && (rc >= 0 || rc == -EAGAIN)) {
            deliver(&link, &link.request, &link.inbox, cut);
            while (buffer_length(&link.inbox) && (rc = parse(&link)) >= 0)
                if (rc == 1 && (rc = serve(&link)))
                    break;
            if (rc == -EAGAIN && buffer_length(&link.inbox) > fixture->ops->max_request)
                fail(fixture, "garbage: parse waits with %zu bytes", buffer_length(&link.inbox));
            buffer_consume(&link.reply, buffer_length(&link.reply));
        }
        if (rc == 1 || (rc < 0 && rc != -EAGAIN)) {
            link_close(&link);
            link_open(&link, fixture, stream++);
        }
    }
    link_close(&link);
}

/* The stocks' balances as the service shows them, in its order; the number of rows. */
static size_t show(struct fixture *fixture, int64_t (*rows)[2], size_t capacity) {
    struct link link;
    size_t count = 0;
    link_open(&link, fixture, 2000);
    buffer_put(&link.inbox, "show\n", 5);
    if (parse(&link) != 1 || serve(&link) || buffer_put(&link.reply, "", 1))
        fail(fixture, "show failed");
    for (const char *line = buffer_data(&link.reply); count < capacity && *line && *line != '\n'; count++) {
        if (sscanf(line, "%" SCNd64 " %" SCNd64, &rows[count][0], &rows[count][1]) != 2)
            fail(fixture, "show gives an unreadable row");
        line = strchr(line, '\n') + 1;
    }
    link_close(&link);
    return count;
}

/* What is left is what was there, less what the clients bought, and what they sold: for every stock. */
static void check_ledger(struct fixture *fixture, int64_t (*before)[2], size_t count) {
    int64_t(*after)[2] = need(malloc(LEDGER_LIMIT * sizeof(*after)));
    int64_t(*ledger)[3] = need(malloc(LEDGER_LIMIT * sizeof(*ledger)));
    if (show(fixture, after, LEDGER_LIMIT) != count || !count ||
        fixture->ops->ledger(fixture->client, ledger, LEDGER_LIMIT) != count)
        fail(fixture, "the ledger has other rows than the table");
    int64_t orders = 0;
    for (size_t i = 0; i < count; i++) {
        if (after[i][0] != before[i][0] || ledger[i][0] != before[i][0])
            fail(fixture, "row %zu is about another stock", i);
        if (after[i][1] != before[i][1] - ledger[i][1] + ledger[i][2])
            fail(fixture,
                 "stock %" PRId64 ": %" PRId64 " left, with %" PRId64 " - %" PRId64 " bought + %" PRId64
                 " sold",
                 after[i][0], after[i][1], before[i][1], ledger[i][1], ledger[i][2]);
        orders += ledger[i][1] + ledger[i][2];
    }
    if (!orders)
        fail(fixture, "nothing was ordered");
    free(after);
    free(ledger);
}

static uint64_t try_one(struct fixture *fixture) {
    int64_t(*before)[2] = need(malloc(LEDGER_LIMIT * sizeof(*before)));
    int is_stock = fixture->ops->ledger && !strcmp(fixture->ops->name, "stock");
    size_t rows = is_stock ? show(fixture, before, LEDGER_LIMIT) : 0;
    struct link link;
    link_open(&link, fixture, 0);
    exchange_all(&link);
    link.helped = 1;
    for (int i = 0; i < 10; i++)
        exchange(&link);
    uint64_t exchanges = link.exchanges + in_threads(fixture);
    if (is_stock)
        check_ledger(fixture, before, rows);
    fuzz(fixture);
    exchange(&link);
    link_close(&link);
    free(before);
    return exchanges + 1;
}

/* Sets the next combination of the words of all choices; settings from the command line stay. 0: there was
 * none. */
static int choose(struct fixture *fixture, unsigned long combination) {
    size_t length = (size_t)snprintf(fixture->label, sizeof(fixture->label), "%s", fixture->ops->name);
    for (const struct knob *knob = fixture->ops->knobs; knob && knob->name; knob++) {
        if (knob->type != KNOB_CHOICE || config_text(fixture->config, knob->name))
            continue;
        unsigned long words = 1;
        for (const char *at = knob->allowed; *at; at++)
            words += *at == '|';
        const char *word = knob->allowed;
        for (unsigned long skip = combination % words; skip; skip--)
            word = strchr(word, '|') + 1;
        char value[64];
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(word, "|"), word);
        if (config_set(fixture->config, knob->name, value))
            fail(fixture, "out of memory");
        length += (size_t)snprintf(fixture->label + length, sizeof(fixture->label) - length, " %s=%s",
                                   knob->name, value);
        combination /= words;
    }
    return combination == 0;
}

static void configure(struct fixture *fixture) {
    const struct options *options = fixture->options;
    if (config_create(&fixture->config))
        fail(fixture, "out of memory");
    for (int i = 0; i < options->count; i++) {
        char name[64];
        size_t length = strcspn(options->settings[i], "=");
        snprintf(name, sizeof(name), "%.*s", (int)length, options->settings[i]);
        if (options->settings[i][length] && knob_find(fixture->ops->knobs, name) &&
            config_set(fixture->config, name, options->settings[i] + length + 1))
            fail(fixture, "out of memory");
    }
}

/* Whether threads at the same time lose orders, as they were told to. */
static int is_unsafe(const struct config *config) {
    return config_is(config, "lock", "none") || config_is(config, "unsafe", "yes");
}

/* All combinations of one service. */
static uint64_t try_service(const struct options *options, const struct service_ops *ops) {
    uint64_t exchanges = 0;
    for (unsigned long combination = 0;; combination++) {
        struct fixture fixture = {.options = options, .ops = ops};
        char message[512] = "";
        configure(&fixture);
        if (!choose(&fixture, combination)) {
            config_destroy(fixture.config);
            return exchanges;
        }
        if (config_fill(fixture.config, ops->knobs))
            fail(&fixture, "out of memory");
        if (is_unsafe(fixture.config)) {
            config_destroy(fixture.config);
            continue;
        }
        fixture.counters = need(aligned_alloc(_Alignof(struct counters), counters_size()));
        memset(fixture.counters, 0, counters_size());
        if (ops->create(fixture.config, (int)options->threads + 1, message, sizeof(message),
                        &fixture.service))
            fail(&fixture, "create: %s", message);
        if (ops->client_create(fixture.config, (uint64_t)options->seed, &fixture.client))
            fail(&fixture, "client_create failed");
        exchanges += try_one(&fixture);
        ops->client_destroy(fixture.client);
        ops->destroy(fixture.service);
        free(fixture.counters);
        config_destroy(fixture.config);
    }
}

static int steer(struct options *options, const char *word) {
    const struct {
        const char *name;
        long *value, high;
    } numbers[] = {{"rounds=", &options->rounds, 1000000000},
                   {"threads=", &options->threads, THREADS_LIMIT},
                   {"seed=", &options->seed, 1000000000}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(word, numbers[i].name, length))
            continue;
        char *end;
        *numbers[i].value = strtol(word + length, &end, 10);
        return *end || end == word + length || *numbers[i].value < 1 || *numbers[i].value > numbers[i].high
                   ? -EINVAL
                   : 0;
    }
    if (!strncmp(word, "service=", 8))
        options->service = word + 8;
    return strchr(word, '=') ? 0 : -EINVAL;
}

int main(int count, char **words) {
    struct options options = {
        .rounds = 200, .threads = 4, .seed = 1, .settings = words + 1, .count = count - 1};
    for (int i = 1; i < count; i++)
        if (steer(&options, words[i]))
            fail(NULL, "%s: not a setting", words[i]);
    const struct service_ops *ops;
    uint64_t exchanges = 0;
    for (size_t i = 0; (ops = registry_service_at(i)); i++)
        if (ops->create && (!options.service || !strcmp(options.service, ops->name)))
            exchanges += try_service(&options, ops);
    if (!exchanges)
        fail(NULL, "no such service");
    printf("%" PRIu64 " exchanges\n", exchanges);
    return 0;
}
