/* Serves one page over HTTP/1.1 and 1.0, well enough for real clients: kept and closed connections, pipelined
 * requests, HEAD, and errors that say what is wrong.
 *
 * "/" and the knob `path` are served, whatever query follows; every other path is a 404 and every other
 * method a 405. Content that comes with a request is passed over. After a request that cannot be understood
 * (400, 413, 431, 501, 505) the connection is closed, because where the next one begins is not known. */
#define _GNU_SOURCE
#include "../core/registry.h"
#include "http_client.h"
#include "http_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct knob knobs[] = {
    {"message", KNOB_INT, "16", "0:1000000", "bytes", "length of the page"},
    {"path", KNOB_TEXT, "/", "a path without blanks", "", "page that is served and asked for"},
    {"method", KNOB_CHOICE, "GET", "GET|HEAD", "", "what clients ask with"},
    {"host", KNOB_TEXT, "127.0.0.1", "name or name:port", "", "Host field that clients send"},
    {"status", KNOB_CHOICE, "2xx", "2xx|3xx|any", "",
     "replies that clients take as right: 2xx, redirects (3xx) too, or any"},
    {0},
};

static const char *const operations[] = {"request", NULL};

enum { HEAD_LIMIT = 16384, CONTENT_LIMIT = 1 << 20, SKIP_LIMIT = 1 << 20 };

struct http {
    size_t page_length;
    char *page;
    char *path;
    int closes;          /* connection=per_request */
    struct buffer ok[2]; /* heads of the reply 200: keeping the connection, and closing it */
};

enum phase { REQUEST, FIELDS, CONTENT, SKIPPING };

struct session {
    enum phase phase;
    int status;
    int head;        /* HEAD: a reply without its body */
    int ends;        /* the connection closes after the reply */
    int modern;      /* HTTP/1.1 */
    int hosts;       /* fields Host that came */
    int expects;     /* content follows once it is asked for */
    int blank;       /* skipping: the line has nothing so far */
    size_t taken;    /* bytes of the head so far */
    int64_t content; /* bytes of content announced, then those still to come; -1: not announced */
};

static const char *reason(int status) {
    switch (status) {
    case 200:
        return "OK";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 413:
        return "Content Too Large";
    case 431:
        return "Request Header Fields Too Large";
    case 501:
        return "Not Implemented";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Bad Request";
    }
}

static int write_head(struct buffer *out, int status, size_t length, int ends) {
    return buffer_printf(out,
                         "HTTP/1.1 %d %s\r\nServer: " HTTP_CLIENT_SERVER "\r\n%sContent-Type: text/plain\r\n"
                         "Content-Length: %zu\r\nConnection: %s\r\n\r\n",
                         status, reason(status), status == 405 ? "Allow: GET, HEAD\r\n" : "", length,
                         ends ? "close" : "keep-alive");
}

static void destroy(void *memory) {
    struct http *http = memory;
    free(http->page);
    free(http->path);
    for (int ends = 0; ends < 2; ends++)
        buffer_free(&http->ok[ends]);
    free(http);
}

/* The page: lines of text, so that it can be looked at. */
static void write_page(char *page, size_t length) {
    static const char line[] = "The page that kneepoint serves, as long as its knob says.......\n";
    for (size_t at = 0; at < length; at += sizeof(line) - 1) {
        size_t left = length - at;
        memcpy(page + at, line, left < sizeof(line) - 1 ? left : sizeof(line) - 1);
    }
    if (length)
        page[length - 1] = '\n';
}

static int create(const struct config *config, int threads, char *message, size_t size, void **service) {
    (void)threads;
    int rc = http_client_check(config, message, size);
    if (rc)
        return rc;
    struct http *http = calloc(1, sizeof(*http));
    if (!http)
        return -ENOMEM;
    http->page_length = (size_t)config_int(config, "message");
    http->page = malloc(http->page_length + 1);
    http->path = strdup(config_text(config, "path"));
    http->closes = config_is(config, "connection", "per_request");
    rc = http->page && http->path ? 0 : -ENOMEM;
    for (int ends = 0; !rc && ends < 2; ends++) {
        buffer_init(&http->ok[ends], 1024);
        rc = write_head(&http->ok[ends], 200, http->page_length, ends);
    }
    if (rc) {
        destroy(http);
        return rc;
    }
    write_page(http->page, http->page_length);
    *service = http;
    return 0;
}

static void begin(const struct http *http, struct session *session) {
    *session = (struct session){.ends = http->closes, .content = -1};
}

static int open_session(void *service, void *session) {
    begin(service, session);
    return 0;
}

static void close_session(void *service, void *session) {
    (void)service, (void)session;
}

/* Ends the reading of a request that cannot be understood: it is complete, and its reply says why. */
static int refuse(struct session *session, int status) {
    session->status = status;
    session->ends = 1;
    return 1;
}

static int serves(const struct http *http, struct http_text target) {
    if (target.length > 7 && !strncasecmp(target.at, "http://", 7)) {
        const char *slash = memchr(target.at + 7, '/', target.length - 7);
        if (!slash)
            return 1;
        target.length -= (size_t)(slash - target.at);
        target.at = slash;
    }
    size_t whole = strlen(http->path);
    if (target.length == whole && !memcmp(target.at, http->path, whole))
        return 1;
    const char *query = memchr(target.at, '?', target.length);
    size_t length = query ? (size_t)(query - target.at) : target.length;
    return (length == 1 && *target.at == '/') || (length == whole && !memcmp(target.at, http->path, whole));
}

static int take_request(const struct http *http, struct session *session, struct http_text line) {
    const char *first = memchr(line.at, ' ', line.length);
    const char *last = memrchr(line.at, ' ', line.length);
    if (!first || first == line.at || last - first < 2)
        return refuse(session, 400);
    struct http_text method = {line.at, (size_t)(first - line.at)};
    struct http_text target = {first + 1, (size_t)(last - first) - 1};
    struct http_text version = {last + 1, line.length - (size_t)(last - line.at) - 1};
    for (size_t i = 0; i < method.length; i++)
        if (method.at[i] < 'A' || method.at[i] > 'Z')
            return refuse(session, 400);
    for (size_t i = 0; i < target.length; i++)
        if ((unsigned char)target.at[i] <= ' ' || target.at[i] == 0x7f)
            return refuse(session, 400);
    if (version.length != 8 || memcmp(version.at, "HTTP/", 5) || version.at[6] != '.')
        return refuse(session, 400);
    if (version.at[5] != '1')
        return refuse(session, 505);
    session->modern = version.at[7] != '0';
    session->ends |= !session->modern;
    session->head = http_text_is(method, "head");
    session->status = !session->head && !http_text_is(method, "get") ? 405 : serves(http, target) ? 200 : 404;
    session->phase = FIELDS;
    return 0;
}

static int take_field(const struct http *http, struct session *session, struct http_text line) {
    struct http_text name, value;
    if (http_text_field(line, &name, &value))
        return refuse(session, 400);
    if (http_text_is(name, "host")) {
        session->hosts++;
    } else if (http_text_is(name, "connection")) {
        if (http_text_has(value, "close"))
            session->ends = 1;
        else if (!session->modern && !http->closes && http_text_has(value, "keep-alive"))
            session->ends = 0;
    } else if (http_text_is(name, "content-length")) {
        int64_t length;
        if (http_text_number(value, 10, &length) || (session->content >= 0 && session->content != length))
            return refuse(session, 400);
        session->content = length;
    } else if (http_text_is(name, "transfer-encoding")) {
        return refuse(session, 501);
    } else if (http_text_is(name, "expect")) {
        session->expects = session->modern && http_text_is(value, "100-continue");
    }
    return 0;
}

static int end_head(struct session *session, struct buffer *out) {
    if (session->hosts > 1 || (session->modern && !session->hosts))
        return refuse(session, 400);
    if (session->content > CONTENT_LIMIT)
        return refuse(session, 413);
    if (session->content <= 0)
        return 1;
    session->phase = CONTENT;
    return session->expects ? buffer_printf(out, "HTTP/1.1 100 Continue\r\n\r\n") : 0;
}

/* Passes over a head that is too long, to its end: a connection closed with bytes unread is reset, and the
 * client would never see the reply. */
static int skip_head(struct session *session, const char *in, size_t length, size_t *used,
                     struct buffer *out) {
    while (*used < length) {
        char byte = in[(*used)++];
        if (byte == '\n' && session->blank)
            return refuse(session, 431);
        if (byte != '\r')
            session->blank = byte == '\n';
        if (++session->taken > SKIP_LIMIT) {
            int rc = write_head(out, 431, 0, 1);
            return rc ? rc : -EPROTO;
        }
    }
    return 0;
}

static int parse(void *service, void *memory, const char *in, size_t length, size_t *used,
                 struct buffer *out) {
    const struct http *http = service;
    struct session *session = memory;
    int rc = 0;
    *used = 0;
    while (!rc && *used < length) {
        const char *at = in + *used;
        size_t left = length - *used, taken;
        if (session->phase == SKIPPING)
            return skip_head(session, in, length, used, out);
        if (session->phase == CONTENT) {
            size_t piece = (int64_t)left < session->content ? left : (size_t)session->content;
            *used += piece;
            session->content -= (int64_t)piece;
            rc = !session->content;
            continue;
        }
        struct http_text line;
        int found = http_text_line(at, left, HEAD_LIMIT - session->taken, &line, &taken);
        if (!found)
            return 0;
        if (found < 0) {
            session->blank = session->phase == FIELDS; /* the line before has ended */
            session->phase = SKIPPING;
            continue;
        }
        *used += taken;
        session->taken += taken;
        if (session->phase == FIELDS)
            rc = line.length ? take_field(http, session, line) : end_head(session, out);
        else if (line.length) /* an empty line before a request is passed over (RFC 9112, 2.2) */
            rc = take_request(http, session, line);
    }
    return rc;
}

static uint32_t split(void *service, void *memory, uint32_t chunk) {
    (void)service, (void)memory, (void)chunk;
    return 1;
}

static void run(void *service, void *memory, uint32_t task, uint32_t chunk, struct counter_block *me) {
    (void)service, (void)memory, (void)task, (void)chunk, (void)me;
}

static int reply_error(const struct session *session, struct buffer *out) {
    char text[64];
    size_t length = (size_t)snprintf(text, sizeof(text), "%d %s\n", session->status, reason(session->status));
    int rc = write_head(out, session->status, length, session->ends);
    return rc || session->head ? rc : buffer_put(out, text, length);
}

static int reply(void *service, void *memory, struct buffer *out) {
    const struct http *http = service;
    struct session *session = memory;
    int rc, ends = session->ends;
    if (session->status == 200) {
        const struct buffer *head = &http->ok[ends];
        rc = buffer_put(out, buffer_data(head), buffer_length(head));
        if (!rc && !session->head)
            rc = buffer_put(out, http->page, http->page_length);
    } else {
        rc = reply_error(session, out);
    }
    begin(http, session);
    return rc ? rc : ends;
}

static const struct service_ops http = {
    .name = "http",
    .summary = "serves one page over HTTP/1.1",
    .knobs = knobs,
    .operations = operations,
    .max_request = HEAD_LIMIT,
    .session_size = sizeof(struct session),
    .create = create,
    .destroy = destroy,
    .open = open_session,
    .close = close_session,
    .parse = parse,
    .split = split,
    .run = run,
    .reply = reply,
    .client_session_size = sizeof(struct http_client_session),
    .client_check = http_client_check,
    .client_create = http_client_create,
    .client_destroy = http_client_destroy,
    .client_open = http_client_open,
    .client_close = http_client_close,
    .ask = http_client_ask,
    .answer = http_client_answer,
    .finish = http_client_finish,
    .ends = http_client_ends,
    .say = http_client_say,
};
REGISTER_SERVICE(http);
