/* Fuzz target: the client side of any registered service, whose server is anybody.
 *
 * What is promised: no sanitizer report; answer says 0, 1, -EBADMSG or -EPROTO and nothing else; the same
 * bytes come to the same statuses and the same further requests, in whatever pieces they arrive; what cannot
 * be said writes nothing; and the replies of our own server, if nobody spoils them, are right.
 *
 *     replies --service=NAME [libFuzzer's words]
 *
 * Steering bytes: how (1: the first line of the bytes is said by a person, and what follows is the reply to
 * it; 2: the client's address is told; 4: the server is not ours; 8: replies are those of our own server,
 * each byte changed by one of the input; 16: a connection for each request; the high bits: how often the
 * bytes come, as a power of two), the sizes of pieces, and then the knobs of the service. */
#define _GNU_SOURCE
#include "input.h"

#include <arpa/inet.h>
#include <errno.h>

enum { SAYS = 1, ADDRESSED = 2, OUTSIDE = 4, OWN = 8, ONCE = 16, TIMES = 5, ROUNDS = 4 };
enum { CACHED = 64, OUT_LIMIT = 16 << 20, CAME_LIMIT = 1 << 18 };

static struct counter_block *me;

int LLVMFuzzerInitialize(int *count, char ***words) {
    choose_service(count, *words);
    me = make_counters();
    return 0;
}

/* A client takes long to make, and most keep nothing: those are made once for each set of settings. */
static struct {
    char *key;
    void *client;
} cache[CACHED];

static char *key_of(const struct config *config) {
    struct buffer text;
    buffer_init(&text, 1 << 16);
    for (size_t i = 0; i < config_count(config); i++)
        if (buffer_printf(&text, "%s=%s\n", config_name_at(config, i), config_value_at(config, i)))
            abort();
    if (buffer_put(&text, "", 1))
        abort();
    return text.bytes;
}

static void *make_client(const struct config *config) {
    void *client = NULL;
    int rc = ops->client_create(config, 1, &client);
    require(!rc, "client_create gives %d", rc);
    return client;
}

static void *client_of(const struct config *config) {
    static size_t newest;
    if (ops->ledger)
        return make_client(config);
    char *key = key_of(config);
    for (size_t i = 0; i < CACHED; i++)
        if (cache[i].key && !strcmp(cache[i].key, key)) {
            free(key);
            return cache[i].client;
        }
    newest = (newest + 1) % CACHED;
    if (cache[newest].key)
        ops->client_destroy(cache[newest].client);
    free(cache[newest].key);
    cache[newest].key = key;
    return cache[newest].client = make_client(config);
}

struct dialogue {
    void *client, *session;
    void *service, *served; /* our own server's side, where it replies */
    int honest;             /* it does, and no byte was changed so far */
    struct random random;
    struct block in;
    struct buffer asked, reply, shown;
    struct digest outcome; /* every status, every request, every text shown */
    int said;
};

static void note(struct dialogue *talk, int status) {
    digest_bytes(&talk->outcome, (const char *)&status, sizeof(status));
}

static void ask(struct dialogue *talk) {
    int operations = 0, operation = ops->ask(talk->client, talk->session, &talk->random, &talk->asked);
    while (ops->operations[operations])
        operations++;
    require(operation >= 0 && operation < operations, "ask gives %d", operation);
    note(talk, operation);
    talk->said = 0;
}

/* A reply is complete: what a person would see, whether the server ends the connection, the next question. */
static void turn(struct dialogue *talk, const char *reply, size_t length) {
    if (talk->said && ops->show) {
        note(talk, ops->show(talk->client, talk->session, reply, length, &talk->shown));
        digest_buffer(&talk->outcome, &talk->shown);
    }
    if (ops->ends)
        note(talk, !!ops->ends(talk->client, talk->session));
    ask(talk);
}

/* Takes what has come. 0: more is awaited; 1: `rounds` replies came; negative: it cannot be understood. */
static int take(struct dialogue *talk, int *rounds) {
    struct block *in = &talk->in;
    while (in->taken < in->length) {
        size_t used = 0, length = in->length - in->taken;
        const char *bytes = in->bytes + in->taken;
        int rc = ops->answer(talk->client, talk->session, bytes, length, &used, &talk->asked);
        require(used <= length, "answer used %zu of %zu bytes", used, length);
        require(rc == 0 || rc == 1 || rc == -EBADMSG || rc == -EPROTO, "answer gives %d", rc);
        in->taken += used;
        if (talk->said && buffer_put(&talk->reply, bytes, used))
            abort();
        if (rc == -EPROTO)
            return rc;
        if (!rc && !used)
            return 0;
        if (!rc)
            continue;
        note(talk, rc);
        require(rc == 1 || !talk->honest, "our own server's reply is wrong");
        if (!--*rounds)
            return 1;
        digest_buffer(&talk->outcome, &talk->asked);
        turn(talk, buffer_length(&talk->reply) ? buffer_data(&talk->reply) : "", buffer_length(&talk->reply));
        buffer_consume(&talk->reply, buffer_length(&talk->reply));
    }
    return 0;
}

static int feed(struct dialogue *talk, const char *bytes, size_t length, size_t total, struct cuts *cuts,
                int *rounds) {
    int rc = 0;
    for (size_t at = 0, piece; !rc && at < total; at += piece) {
        piece = cut(cuts, total - at);
        block_grow(&talk->in, bytes, length, at, piece);
        rc = take(talk, rounds);
    }
    return rc;
}

/* The reply of our own server to all that was asked; nonzero: it ends the connection. */
static int own_reply(struct dialogue *talk, struct buffer *out) {
    struct buffer *asked = &talk->asked;
    int rc = 0;
    size_t used = 1;
    while (!rc && buffer_length(asked) && used) {
        used = 0;
        rc = ops->parse(talk->service, talk->served, buffer_data(asked), buffer_length(asked), &used, out);
        digest_bytes(&talk->outcome, buffer_data(asked), used);
        buffer_consume(asked, used);
        if (rc != 1)
            continue;
        for (uint32_t task = 0; task < ops->split(talk->service, talk->served, UINT32_MAX); task++)
            ops->run(talk->service, talk->served, task, UINT32_MAX, me);
        rc = ops->reply(talk->service, talk->served, out);
    }
    return rc;
}

/* Changes each byte by one of the input, as long as there are any. */
static void spoil(struct dialogue *talk, struct buffer *reply, struct input *input) {
    for (size_t i = 0; i < buffer_length(reply) && input->length; i++, input->bytes++, input->length--) {
        reply->bytes[reply->start + i] ^= *input->bytes;
        talk->honest &= !*input->bytes;
    }
}

/* Several exchanges with our own server. */
static int with_own(struct dialogue *talk, const struct config *config, struct input *input,
                    struct cuts *cuts) {
    char message[512];
    if (!ops->create || ops->create(config, 1, message, sizeof(message), &talk->service))
        return 0;
    struct buffer reply;
    int rc = 0, ended = 0, rounds = ROUNDS;
    buffer_init(&reply, OUT_LIMIT);
    talk->served = need(calloc(1, ops->session_size + 1));
    talk->honest = 1;
    if (ops->open(talk->service, talk->served))
        abort();
    for (int turns = 0; !rc && !ended && turns < 2 * ROUNDS; turns++) {
        ended = own_reply(talk, &reply);
        spoil(talk, &reply, input);
        size_t length = buffer_length(&reply);
        if (length)
            rc = feed(talk, buffer_data(&reply), length, length, cuts, &rounds);
        buffer_consume(&reply, length);
    }
    require(!talk->honest || ended || rc == 1, "our own server's replies come to %d", rc);
    ops->close(talk->service, talk->served);
    ops->destroy(talk->service);
    free(talk->served);
    buffer_free(&reply);
    return rc;
}

/* What a person types is the first line; it ends at a zero byte, as text does. */
static void say(struct dialogue *talk, struct input *input) {
    const char *end = memchr(input->bytes, '\n', input->length);
    size_t length = end ? (size_t)(end - input->bytes) : input->length;
    char *line = need(strndup(input->bytes, length));
    int rc = ops->say(talk->client, talk->session, line, &talk->asked);
    free(line);
    require(rc == 0 || rc == -EINVAL, "say gives %d", rc);
    require(!rc || !buffer_length(&talk->asked), "say refuses and writes");
    require(rc || buffer_length(&talk->asked), "say writes nothing");
    note(talk, rc);
    talk->said = !rc;
    input->length -= length + (end != NULL);
    input->bytes += length + (end != NULL);
}

static struct digest converse(const struct config *config, struct input input, int how, struct cuts cuts) {
    struct dialogue talk = {.client = client_of(config)};
    int rc, rounds = INT32_MAX;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(65535)};
    inet_pton(AF_INET, "255.255.255.255", &address.sin_addr);
    random_seed(&talk.random, 1, 1);
    buffer_init(&talk.asked, OUT_LIMIT);
    buffer_init(&talk.reply, OUT_LIMIT);
    buffer_init(&talk.shown, 4 * OUT_LIMIT);
    talk.session = need(calloc(1, ops->client_session_size + 1));
    if (ops->client_open(talk.client, talk.session))
        abort();
    if (how & ADDRESSED && ops->client_address && !(how & OWN))
        ops->client_address(talk.client, talk.session, &address);
    if (how & SAYS && !(how & OWN) && ops->say)
        say(&talk, &input);
    if (!talk.said)
        ask(&talk);
    size_t total = input.length << (how >> TIMES);
    if (how & OWN)
        rc = with_own(&talk, config, &input, &cuts);
    else
        rc =
            feed(&talk, input.bytes, input.length, total < CAME_LIMIT ? total : input.length, &cuts, &rounds);
    note(&talk, rc);
    if (rc == 0 && ops->finish)
        note(&talk, ops->finish(talk.client, talk.session));
    digest_buffer(&talk.outcome, &talk.asked);
    ops->client_close(talk.client, talk.session);
    if (ops->ledger)
        ops->client_destroy(talk.client);
    free(talk.session);
    free(talk.in.bytes);
    buffer_free(&talk.asked);
    buffer_free(&talk.reply);
    buffer_free(&talk.shown);
    return talk.outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = read_input(data, size);
    uint8_t how = steer(&input);
    struct cuts cuts = choose_cuts(&input, input.length << (how >> TIMES));
    const struct knob *const tables[] = {ops->knobs, NULL};
    struct config *config = choose_settings(&input, tables);
    if (config_set(config, "outside", how & OUTSIDE ? "yes" : "no") ||
        config_set(config, "connection", how & ONCE ? "per_request" : "keep"))
        abort();
    char message[512];
    if (ops->client_check && ops->client_check(config, message, sizeof(message))) {
        config_destroy(config);
        return 0;
    }
    struct digest whole = converse(config, input, how, no_cuts());
    struct digest pieces = converse(config, input, how, cuts);
    config_destroy(config);
    require(digest_same(&whole, &pieces), "what replies come to depends on their pieces");
    return 0;
}
