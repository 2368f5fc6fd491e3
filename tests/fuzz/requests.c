/* Fuzz target: the server side of any registered service, fed as a connection would be.
 *
 * What is promised: no sanitizer report, no wait with more bytes than max_request, no request without bytes;
 * and the same bytes come to the same replies and the same end, in whatever pieces they arrive and however
 * the requests are cut into tasks. Each conversation has a service of its own, so that an input always means
 * the same.
 *
 *     requests --service=NAME [libFuzzer's words]
 *
 * Steering bytes: how (1: the peer's address is told; the high bits: how often the bytes are said, as a power
 * of two; 255: until every limit of a connection is passed), the sizes of pieces, the size of tasks, and then
 * the knobs of the service and those of all servers. */
#define _GNU_SOURCE
#include "input.h"

#include <arpa/inet.h>
#include <errno.h>

enum {
    TASKS_LIMIT = 2000,
    REQUESTS_LIMIT = 500,
    OUT_LIMIT = 16 << 20,
    SAID_LIMIT = 1100000,
    SAID_TIMES = 66
};

static struct counter_block *me;

int LLVMFuzzerInitialize(int *count, char ***words) {
    choose_service(count, *words);
    if (!ops->parse) {
        fprintf(stderr, "%s has no server side\n", ops->name);
        exit(2);
    }
    me = make_counters();
    return 0;
}

struct conversation {
    void *service, *session;
    uint32_t chunk;
    int requests; /* so far; a conversation ends after many */
    struct block in;
    struct buffer out;
    struct digest replies;
    int end; /* 0: the connection is still open; 1: closed in order; negative: the protocol was violated */
};

/* Runs the tasks from the last to the first: their order must not matter. */
static int run_and_reply(struct conversation *talk) {
    uint32_t chunk = talk->chunk, tasks = ops->split(talk->service, talk->session, chunk);
    if (tasks > TASKS_LIMIT)
        tasks = ops->split(talk->service, talk->session, chunk = UINT32_MAX);
    require(tasks > 0, "a request without tasks");
    while (tasks--)
        ops->run(talk->service, talk->session, tasks, chunk, me);
    int rc = ops->reply(talk->service, talk->session, &talk->out);
    digest_buffer(&talk->replies, &talk->out);
    return rc || ++talk->requests < REQUESTS_LIMIT ? rc : 1;
}

static int serve(struct conversation *talk) {
    struct block *in = &talk->in;
    while (in->taken < in->length) {
        size_t used = 0, length = in->length - in->taken;
        int rc = ops->parse(talk->service, talk->session, in->bytes + in->taken, length, &used, &talk->out);
        require(used <= length, "parse used %zu of %zu bytes", used, length);
        require(rc <= 1, "parse gives %d", rc);
        require(rc < 1 || used, "a request without bytes");
        in->taken += used;
        digest_buffer(&talk->replies, &talk->out);
        if (rc == 1)
            rc = run_and_reply(talk);
        if (rc)
            return rc;
        if (!used)
            break;
    }
    size_t waiting = in->length - in->taken;
    require(waiting <= ops->max_request, "parse waits with %zu bytes", waiting);
    return 0;
}

static struct conversation converse(const struct config *config, const struct input *input, size_t length,
                                    int named, struct cuts cuts, uint32_t chunk) {
    struct conversation talk = {.chunk = chunk};
    char message[512] = "";
    int rc = ops->create(config, 1, message, sizeof(message), &talk.service);
    if (rc) {
        require(rc != -EINVAL || (*message && !strchr(message, '\n')), "create refuses by \"%s\"", message);
        return talk;
    }
    buffer_init(&talk.out, OUT_LIMIT);
    talk.session = need(calloc(1, ops->session_size + 1));
    if (ops->open(talk.service, talk.session))
        abort();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(65535)};
    inet_pton(AF_INET, "255.255.255.255", &address.sin_addr);
    if (named && ops->peer)
        ops->peer(talk.service, talk.session, &address);
    for (size_t at = 0, piece; !talk.end && at < length; at += piece) {
        piece = cut(&cuts, length - at);
        block_grow(&talk.in, input->bytes, input->length, at, piece);
        talk.end = serve(&talk);
    }
    ops->close(talk.service, talk.session);
    ops->destroy(talk.service);
    free(talk.session);
    free(talk.in.bytes);
    buffer_free(&talk.out);
    return talk;
}

/* How many bytes are said: all of them, and perhaps several times, so that small inputs reach large limits.
 */
static size_t said(const struct input *input, uint8_t how) {
    size_t limit = SAID_TIMES * ops->max_request, length = input->length << (how >> 5);
    if (limit > SAID_LIMIT)
        limit = SAID_LIMIT;
    if (input->length > limit || !length)
        return input->length;
    return how == 255 || length > limit ? limit : length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = read_input(data, size);
    uint8_t how = steer(&input);
    size_t length = said(&input, how);
    struct cuts cuts = choose_cuts(&input, length);
    uint8_t chunk = steer(&input);
    const struct knob *const tables[] = {ops->knobs, server_common_knobs, NULL};
    struct config *config = choose_settings(&input, tables);
    struct conversation whole = converse(config, &input, length, how & 1, no_cuts(), UINT32_MAX);
    struct conversation pieces = converse(config, &input, length, how & 1, cuts, chunk ? chunk : 1);
    config_destroy(config);
    require(whole.end == pieces.end, "the end depends on the pieces: %d, %d", whole.end, pieces.end);
    require(digest_same(&whole.replies, &pieces.replies), "replies depend on the pieces: %zu and %zu bytes",
            whole.replies.length, pieces.replies.length);
    return 0;
}
