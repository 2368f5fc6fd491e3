#include "visit.h"

#include "../core/clock.h"
#include "../core/sock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 16384, REQUEST_LIMIT = 8 << 20, REPLY_LIMIT = 16 << 20 };

struct visitor {
    struct visit *visit;
    const struct load_env *env;
    void *service_client, *session;
    int fd; /* -1 while there is no connection */
    int64_t timeout_ns;
    struct buffer in, out;
    struct random random;
};

void visit_change(struct visit *visit, enum visit_state state, int64_t now) {
    visit->spent[visit->state] += now - visit->since;
    visit->state = state;
    visit->since = now;
}

static int dial(struct visitor *visitor) {
    struct visit *visit = visitor->visit;
    const struct service_ops *service = visitor->env->service;
    visit_change(visit, VISIT_CONNECTING, clock_now());
    int fd = sock_connect_wait(&visitor->env->to, visitor->timeout_ns);
    if (fd < 0)
        return fd;
    int64_t now = clock_now();
    if (!visit->connected)
        visit->connect_ns = now - visit->since;
    visit->connected = 1;
    visit_change(visit, VISIT_GENERATOR, now);
    memset(visitor->session, 0, service->client_session_size);
    int rc = service->client_open(visitor->service_client, visitor->session);
    if (rc) {
        close(fd);
        return rc;
    }
    visitor->fd = fd;
    if (!service->client_address)
        return 0;
    struct sockaddr_in address = {0};
    socklen_t length = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &length))
        return -errno;
    service->client_address(visitor->service_client, visitor->session, &address);
    return 0;
}

static void hang_up(struct visitor *visitor) {
    if (visitor->fd < 0)
        return;
    close(visitor->fd);
    visitor->fd = -1;
    visitor->env->service->client_close(visitor->service_client, visitor->session);
}

/* The outcome of a read or write that moved nothing: a negated errno, or 0 to try again. */
static int failure(void) {
    return errno == EINTR ? 0 : errno == EAGAIN ? -ETIMEDOUT : -errno;
}

static int send_all(struct visitor *visitor) {
    struct buffer *out = &visitor->out;
    while (buffer_length(out)) {
        ssize_t sent = send(visitor->fd, buffer_data(out), buffer_length(out), MSG_NOSIGNAL);
        if (sent > 0) {
            buffer_consume(out, (size_t)sent);
            continue;
        }
        int rc = failure();
        if (rc)
            return rc;
    }
    return 0;
}

/* Bytes read, 0 at the end of the stream, or a negated errno. */
static long receive(struct visitor *visitor) {
    struct buffer *in = &visitor->in;
    if (buffer_reserve(in, READ_SIZE))
        return -EPROTO;
    for (;;) {
        ssize_t got = recv(visitor->fd, in->bytes + in->end, READ_SIZE, 0);
        if (got >= 0) {
            in->end += (size_t)got;
            return got;
        }
        int rc = failure();
        if (rc)
            return rc;
    }
}

/* Feeds what came to the service's client side: 1 for a complete reply, -EBADMSG for a wrong one, 0 when more
 * is to come, or another negated errno. */
static int digest(struct visitor *visitor) {
    const struct service_ops *service = visitor->env->service;
    struct buffer *in = &visitor->in;
    while (buffer_length(in)) {
        size_t used = 0;
        int rc = service->answer(visitor->service_client, visitor->session, buffer_data(in),
                                 buffer_length(in), &used, &visitor->out);
        buffer_consume(in, used);
        if (rc == 1 || rc == -EBADMSG)
            return buffer_length(in) ? -EPROTO : rc;
        if (!rc)
            rc = send_all(visitor);
        if (rc)
            return rc;
        if (!used)
            break;
    }
    return 0;
}

/* The server has ended the connection: some replies are complete by that. */
static int conclude(struct visitor *visitor) {
    const struct service_ops *service = visitor->env->service;
    int rc = service->finish ? service->finish(visitor->service_client, visitor->session) : 0;
    return rc ? rc : -ENOTCONN;
}

static int await_reply(struct visitor *visitor) {
    int64_t limit = visitor->visit->since + visitor->timeout_ns;
    for (;;) {
        long got = receive(visitor);
        int rc = got > 0 ? digest(visitor) : got ? (int)got : conclude(visitor);
        if (rc)
            return rc;
        /* A server that drips its reply never lets a single read time out. */
        if (clock_now() > limit)
            return -ETIMEDOUT;
    }
}

/* One request and its reply. 0, or a negated errno that leaves the connection unusable. */
static int exchange(struct visitor *visitor) {
    struct visit *visit = visitor->visit;
    int64_t due = visit->since;
    int operation = visitor->env->service->ask(visitor->service_client, visitor->session, &visitor->random,
                                               &visitor->out);
    int64_t sent = clock_now();
    visit_change(visit, VISIT_RESPONSE, sent);
    if (operation < 0)
        return operation;
    int rc = send_all(visitor);
    if (!rc)
        rc = await_reply(visitor);
    int64_t now = clock_now();
    visit_change(visit, VISIT_GENERATOR, now);
    if (rc == -EBADMSG)
        load_count_error(&visit->errors, rc);
    else if (rc < 0)
        return rc;
    visit->log[visit->count++] = (struct visit_request){due, sent, now, operation};
    return 0;
}

/* Ends this connection, once the server has if that is its part, and opens the next. */
static int redial(struct visitor *visitor, int server_closes) {
    visit_change(visitor->visit, VISIT_CONNECTING, clock_now());
    long got = server_closes ? receive(visitor) : 0;
    hang_up(visitor);
    if (got)
        return got > 0 ? -EPROTO : (int)got;
    return dial(visitor);
}

static int visit_all(struct visitor *visitor, size_t requests, const _Atomic int *stopping) {
    const struct config *config = visitor->env->config;
    const struct service_ops *service = visitor->env->service;
    int once = config_is(config, "connection", "per_request");
    int client_closes = once && config_is(config, "closer", "client");
    int rc = dial(visitor);
    for (size_t i = 0; i < requests && !rc && !atomic_load(stopping); i++) {
        int ends = i && service->ends && service->ends(visitor->service_client, visitor->session);
        if (i && (once || ends))
            rc = redial(visitor, !client_closes);
        if (!rc)
            rc = exchange(visitor);
    }
    return rc;
}

void visit_run(struct visit *visit, const struct load_env *env, void *service_client, uint64_t number,
               size_t requests, const _Atomic int *stopping) {
    struct visitor visitor = {
        .visit = visit,
        .env = env,
        .service_client = service_client,
        .session = calloc(1, env->service->client_session_size ? env->service->client_session_size : 1),
        .fd = -1,
        .timeout_ns = (int64_t)(config_real(env->config, "timeout") * 1e9),
    };
    buffer_init(&visitor.in, REPLY_LIMIT);
    buffer_init(&visitor.out, REQUEST_LIMIT);
    random_seed(&visitor.random, env->seed, number);
    int rc = visitor.session ? visit_all(&visitor, requests, stopping) : -ENOMEM;
    hang_up(&visitor);
    visit_change(visit, VISIT_GENERATOR, clock_now());
    if (rc)
        load_count_error(&visit->errors, rc);
    buffer_free(&visitor.in);
    buffer_free(&visitor.out);
    free(visitor.session);
}
