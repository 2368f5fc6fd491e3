/* What the clients of the services http, echo and lines accept of a server that is anybody's: every framing
 * of a reply, every end of one, and nothing that is none; and what they make of a line that a person typed.
 *
 *     protocol_clients FOLDER
 *
 * Links with all of pyx/csrc but main.c. Exit status 1, and one line for each failure. */
#define _GNU_SOURCE
#include "client_subject.h"

#include <arpa/inet.h>

enum { CUT = 0, RIGHT = 1, WRONG = -EBADMSG, BROKEN = -EPROTO };

struct reply {
    const char *text;
    int status; /* of answer for all of it; CUT: it waits for more */
    int finish; /* what the end of the connection makes of that */
    int ends;   /* the server announced that it closes */
};

static void http_reply(const char *const (*settings)[2], int count, const struct reply *reply) {
    struct subject subject;
    size_t taken;
    for (size_t piece = 1; piece <= 10000; piece *= 100) {
        begin(&subject, "http", settings, count);
        ask(&subject);
        int rc = feed(&subject, reply->text, strlen(reply->text), piece, &taken);
        check(rc == reply->status, "http", reply->text, rc);
        check(rc < 1 || taken == strlen(reply->text), "http, bytes taken", reply->text, (long)taken);
        if (rc == CUT) {
            rc = subject.ops->finish(subject.client, subject.session);
            check(rc == reply->finish, "http, at the end", reply->text, rc);
        }
        if (rc == RIGHT || rc == WRONG)
            check(!!subject.ops->ends(subject.client, subject.session) == reply->ends, "http, announces",
                  reply->text, !reply->ends);
        end(&subject);
    }
}

#define OK_11 "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK_11 "Transfer-Encoding: chunked\r\n\r\n"

static void http_replies(void) {
    static const struct reply gets[] = {
        {OK_11 "Content-Length: 3\r\n\r\nabc", RIGHT, 0, 0},
        {OK_11 "content-length:3 \r\nX: y\r\n\r\nabc", RIGHT, 0, 0},
        {"HTTP/1.1 200\nContent-Length: 0\n\n", RIGHT, 0, 0},
        {OK_11 "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", RIGHT, 0, 0},
        {OK_11 "Content-Length: 3\r\nConnection: x, Close\r\n\r\nabc", RIGHT, 0, 1},
        {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", RIGHT, 0, 1},
        {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc", RIGHT, 0, 0},
        {CHUNKED "5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n", RIGHT, 0, 0},
        {CHUNKED "0\r\nTrailer: 1\r\n\r\n", RIGHT, 0, 0},
        {OK_11 "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n2\r\nhi\r\n0\r\n\r\n", RIGHT, 0, 0},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\n" OK_11 "Content-Length: 1\r\n\r\na",
         RIGHT, 0, 0},
        {"HTTP/1.1 204 No Content\r\n\r\n", RIGHT, 0, 0},
        {OK_11 "Server: kneepoint\r\nContent-Length: 16\r\n\r\n0123456789abcdef", RIGHT, 0, 0},
        {OK_11 "Server: kneepoint\r\nContent-Length: 3\r\n\r\nabc", WRONG, 0, 0},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", WRONG, 0, 0},
        {"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n", WRONG, 0, 0},
        {"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", WRONG, 0, 1},
        {OK_11 "\r\nhello", CUT, RIGHT, 1},
        {OK_11 "\r\n", CUT, RIGHT, 1},
        {"HTTP/1.1 500 Oops\r\n\r\nhello", CUT, WRONG, 1},
        {OK_11 "Content-Length: 3\r\n\r\nab", CUT, CUT, 0},
        {OK_11 "Content-Length: 3\r\n", CUT, CUT, 0},
        {CHUNKED "5\r\nhel", CUT, CUT, 0},
        {CHUNKED "5\r\nhello\r\n", CUT, CUT, 0},
        {"HTTP/1.1 2", CUT, CUT, 0},
        {"HTTP/2.0 200 OK\r\n\r\n", BROKEN, 0, 0},
        {"HTTP/1.1 20 OK\r\n\r\n", BROKEN, 0, 0},
        {"HTTP/1.1 2000 OK\r\n\r\n", BROKEN, 0, 0},
        {"HTTP/1.1 700 OK\r\n\r\n", BROKEN, 0, 0},
        {"HTTP/1.1 101 Switching\r\n\r\n", BROKEN, 0, 0},
        {OK_11 "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", BROKEN, 0, 0},
        {OK_11 "Content-Length: -1\r\n\r\n", BROKEN, 0, 0},
        {OK_11 "Content-Length: 3x\r\n\r\n", BROKEN, 0, 0},
        {OK_11 "Content-Length: 99999999999999999999\r\n\r\n", BROKEN, 0, 0},
        {CHUNKED "fffffffffffffffff\r\n", BROKEN, 0, 0},
        {CHUNKED "\r\n", BROKEN, 0, 0},
        {CHUNKED "g\r\n", BROKEN, 0, 0},
        {CHUNKED "2\r\nabc\r\n", BROKEN, 0, 0},
        {"+PONG\r\n", BROKEN, 0, 0},
    };
    static const char *const head[][2] = {{"method", "HEAD"}}, *const any[][2] = {{"status", "any"}},
                             *const redirects[][2] = {{"status", "3xx"}};
    static const struct reply heads[] = {{OK_11 "Content-Length: 300\r\n\r\n", RIGHT, 0, 0},
                                         {OK_11 "Transfer-Encoding: chunked\r\n\r\n", RIGHT, 0, 0},
                                         {OK_11 "\r\n", RIGHT, 0, 0}};
    static const struct reply moved = {"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n", RIGHT, 0, 0},
                              lost = {"HTTP/1.1 404 Lost\r\nContent-Length: 0\r\n\r\n", RIGHT, 0, 0},
                              unchanged = {"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", RIGHT, 0, 0};
    for (size_t i = 0; i < sizeof(gets) / sizeof(*gets); i++)
        http_reply(NULL, 0, &gets[i]);
    for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
        http_reply(head, 1, &heads[i]);
    http_reply(redirects, 1, &moved);
    http_reply(redirects, 1, &unchanged);
    http_reply(any, 1, &lost);
}

/* A head without end is given up, wherever its bytes are. */
static void http_endless(void) {
    static const char *const beginnings[] = {"HTTP/1.1 200 OK\r\nX: ", "HTTP/1.1 200 O", OK_11, CHUNKED "1;"};
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++) {
        size_t begun = strlen(beginnings[i]), length = 200000, taken;
        char *reply = malloc(length);
        memset(reply, 'x', length);
        for (size_t at = begun + 62; i == 2 && at < length; at += 63)
            reply[at] = '\n';
        memcpy(reply, beginnings[i], begun);
        struct subject subject;
        begin(&subject, "http", NULL, 0);
        ask(&subject);
        int rc = feed(&subject, reply, length, 1000, &taken);
        check(rc == BROKEN, "http, a head without end", beginnings[i], rc);
        end(&subject);
        free(reply);
    }
}

static void echo_replies(void) {
    struct subject subject;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(4711)};
    inet_pton(AF_INET, "10.1.2.3", &address.sin_addr);
    static const struct {
        const char *before, *after;
        int known, unknown; /* status when the client knows its own address, and when not */
    } cases[] = {
        {"2026-11-21 10:00:00 message : ", " port : 4711 address : 10.1.2.3\n", RIGHT, RIGHT},
        {"<2026-11-21 10:00:00> message : ", " port : 4711 address : 10.1.2.3\n", RIGHT, RIGHT},
        {"2026-11-21 10:00:00 message : ", " port : 4712 address : 10.1.2.3\n", WRONG, RIGHT},
        {"2026-11-21 10:00:00 message : ", " port : 4711 address : 10.1.2.4\n", WRONG, RIGHT},
        {"2026-11-21 10:00:00 message : x", " port : 4711 address : 10.1.2.3\n", WRONG, WRONG},
        {"2026-11-21 10:00 message : ", " port : 4711 address : 10.1.2.3\n", WRONG, WRONG},
        {"<2026-11-21 10:00:00 message : ", " port : 4711 address : 10.1.2.3\n", WRONG, WRONG},
        {"", "\n", WRONG, WRONG},
    };
    for (int known = 0; known < 2; known++) {
        begin(&subject, "echo", NULL, 0);
        if (known)
            subject.ops->client_address(subject.client, subject.session, &address);
        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
            char reply[300];
            size_t taken;
            check(ask(&subject) == 0 && buffer_length(&subject.asked) == 17, "echo, a text of 16 letters", "",
                  0);
            int length = snprintf(reply, sizeof(reply), "%s%.16s%s", cases[i].before,
                                  buffer_data(&subject.asked), cases[i].after);
            int rc = feed(&subject, reply, (size_t)length, 1 + i * 7, &taken);
            check(rc == (known ? cases[i].known : cases[i].unknown), "echo", reply, rc);
        }
        end(&subject);
    }
}

static void lines_replies(void) {
    static const char *const two[][2] = {
        {"request", "a\\tb\\x41\\\\\\r\\n"}, {"reply_lines", "2"}, {"expect", "+"}};
    struct subject subject;
    begin(&subject, "lines", two, 3);
    ask(&subject);
    check(buffer_length(&subject.asked) == 7 && !memcmp(buffer_data(&subject.asked), "a\tbA\\\r\n", 7),
          "lines, the request", buffer_data(&subject.asked), (long)buffer_length(&subject.asked));
    expect(&subject, "lines", "+OK\nx\n", 6, RIGHT);
    expect(&subject, "lines", "+\n\n", 3, RIGHT);
    expect(&subject, "lines", "-ERR\n+\n", 7, WRONG);
    expect(&subject, "lines", "\n+\n", 3, WRONG);
    expect(&subject, "lines", "+OK\n", 4, CUT);
    end(&subject);
    static const char *const bad[] = {"\\", "\\q", "\\x", "\\x4", "\\xg0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct config *config;
        char message[256];
        void *client;
        if (config_create(&config) || config_set(config, "request", bad[i]) ||
            config_fill(config, registry_service("lines")->knobs))
            abort();
        check(registry_service("lines")->client_check(config, message, sizeof(message)) == -EINVAL &&
                  registry_service("lines")->client_create(config, 1, &client) == -EINVAL,
              "lines, an escape that is none", bad[i], 0);
        config_destroy(config);
    }
}

/* What a person says, as it is sent; NULL: it is not understood. */
static void sayings(void) {
    static const struct {
        const char *service, *line, *sent;
    } cases[] = {
        {"http", "/x", "GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
        {"http", "DELETE /x", "DELETE /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
        {"http", "x", NULL},
        {"http", "GET", NULL},
        {"http", "", NULL},
        {"http", "/x y", NULL},
        {"http", "GET x", NULL},
        {"echo", "hello", "hello\n"},
        {"lines", "SET a \\x31\\n", "SET a 1\n"},
        {"lines", "\\", NULL},
        {"stock", "buy 3 1", "buy 3 1\n"},
        {"synthetic", "work", "work\n"},
        {"prime", "", NULL},
        {"prime", "1 -2", NULL},
        {"prime", "4294967296", NULL},
        {"prime", "1;2", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct subject subject;
        begin(&subject, cases[i].service, NULL, 0);
        int rc = subject.ops->say(subject.client, subject.session, cases[i].line, &subject.asked);
        if (!cases[i].sent)
            check(rc == -EINVAL && !buffer_length(&subject.asked), cases[i].service, cases[i].line, rc);
        else
            check(!rc && buffer_length(&subject.asked) == strlen(cases[i].sent) &&
                      !memcmp(buffer_data(&subject.asked), cases[i].sent, strlen(cases[i].sent)),
                  cases[i].service, cases[i].line, rc);
        end(&subject);
    }
}

static void said_numbers(void) {
    struct subject subject;
    struct buffer shown;
    size_t taken;
    begin(&subject, "prime", NULL, 0);
    buffer_init(&shown, 1000);
    for (int round = 0; round < 2; round++) {
        buffer_consume(&subject.asked, buffer_length(&subject.asked));
        int rc = subject.ops->say(subject.client, subject.session, "7, 4294967295 9", &subject.asked);
        check(!rc && buffer_length(&subject.asked) == 4, "prime, said", "the count", rc);
        buffer_consume(&subject.asked, 4);
        static const char reply[] = "\0\0\0\3\1\0\7";
        rc = feed(&subject, reply, 7, 1, &taken);
        check(rc == RIGHT && buffer_length(&subject.asked) == 12 &&
                  !memcmp(buffer_data(&subject.asked), "\0\0\0\7\377\377\377\377\0\0\0\11", 12),
              "prime, said", "the numbers", rc);
        buffer_consume(&shown, buffer_length(&shown));
        subject.ops->show(subject.client, subject.session, reply, 7, &shown);
        static const char text[] = "7 is prime\n4294967295 is not prime\n9: answered by the byte 7\n";
        check(buffer_length(&shown) == strlen(text) && !memcmp(buffer_data(&shown), text, strlen(text)),
              "prime, shown", text, (long)buffer_length(&shown));
    }
    buffer_free(&shown);
    end(&subject);
}

/* A table that is not known is learnt from the first show, whatever the mix; then only its stocks are
 * ordered. */
static void learnt_stocks(void) {
    static const char *const settings[][2] = {{"mix", "buy"}, {"outside", "yes"}, {"dialect", "padded"}};
    struct subject subject;
    int64_t rows[10][3];
    size_t taken;
    char page[8192];
    begin(&subject, "stock", settings, 3);
    memset(page, 'x', sizeof(page)); /* what a lab server's buffer held before */
    check(ask(&subject) == 0, "stock, outside", "the first request is a show", 0);
    strcpy(page, "nonsense\n");
    check(feed(&subject, page, sizeof(page), 999, &taken) == WRONG, "stock, outside", page, 0);
    check(ask(&subject) == 0, "stock, outside", "a show until one was understood", 0);
    strcpy(page, "700 1 2\n30 4 5\n");
    check(feed(&subject, page, sizeof(page), 999, &taken) == RIGHT, "stock, outside", page, 0);
    for (int i = 0; i < 50; i++) {
        check(ask(&subject) == 1 && (!memcmp(buffer_data(&subject.asked), "buy 700 ", 8) ||
                                     !memcmp(buffer_data(&subject.asked), "buy 30 ", 7)),
              "stock, outside", "an order", i);
        strcpy(page, i % 2 ? "[buy] success\n" : "Not enough left stock\n");
        check(feed(&subject, page, sizeof(page), 5000, &taken) == RIGHT, "stock, outside", page, i);
    }
    check(subject.ops->ledger(subject.client, rows, 10) == 2 && rows[0][0] == 700 && rows[1][0] == 30 &&
              rows[0][1] + rows[1][1] > 0,
          "stock, outside", "the ledger", 0);
    end(&subject);
}

int main(int count, char **words) {
    (void)words;
    if (count != 2) {
        fprintf(stderr, "usage: protocol_clients FOLDER\n");
        return 2;
    }
    http_replies();
    http_endless();
    echo_replies();
    lines_replies();
    sayings();
    said_numbers();
    learnt_stocks();
    printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
