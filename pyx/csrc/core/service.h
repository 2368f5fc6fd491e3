/* A service: what is asked and answered. It knows no server.
 *
 * Server side: bytes in, requests out; request in, tasks out; task in, result; results in, reply bytes out. A
 * blocking server and an event loop both just feed it. One session belongs to one connection and holds at
 * most one request at a time: parse fills it, run works on it, reply empties it. Calls on one session never
 * overlap, except run, which may be called for different tasks of one request by several threads at once.
 *
 * Client side: the same protocol from the other end, for the load generator: ask writes a request, answer
 * reads and checks the reply. A client (one for each load thread group) is shared read-only by its sessions,
 * except for what it keeps atomically. The server may be anybody's: the word outside=yes in the settings says
 * that it is not ours, so that only what the protocol itself promises can be checked.
 *
 * Functions that return int give a negated errno on failure. */
#ifndef KNEEPOINT_SERVICE_H
#define KNEEPOINT_SERVICE_H

#include "buffer.h"
#include "config.h"
#include "counters.h"
#include "random.h"
#include <netinet/in.h>
#include <stdint.h>

struct service_ops {
    const char *name;
    const char *summary;
    const struct knob *knobs;
    const char *const *operations; /* names, ended by NULL; the index is the operation's number */
    size_t max_request; /* bytes that a request can take: the limit of a connection's input buffer */

    /* Server side; all of it NULL or 0 in a service that has a client side only. */
    size_t session_size; /* bytes, given zeroed to open */

    /* `threads`: how many threads may be inside run at the same time. The word processes=yes in the settings
     * says that these are processes, forked after create: what sessions share must then lie in shared memory,
     * and its locks be of the kind that survives a killed holder. create and destroy are called in their
     * parent alone, open to close in one of them, and descriptors that create leaves open are not open there.
     * On failure message gets one line. */
    int (*create)(const struct config *config, int threads, char *message, size_t size, void **service);
    void (*destroy)(void *service);

    /* Says, before anybody serves, whom to tell what goes wrong while the service runs and no reply can say:
     * one line, from any thread or process. NULL: nothing of that kind can. */
    void (*complain_to)(void *service, void (*complain)(const char *line));

    /* Writes down what must outlive the service, when nobody serves any more, last before destroy. NULL:
     * nothing must. */
    int (*save)(void *service);

    int (*open)(void *service, void *session);
    void (*close)(void *service, void *session);

    /* Only with processes=yes, in their parent: the process `pid` was killed or crashed, and did not close
     * the session that it may have had. NULL where nothing hangs on that. */
    void (*lost)(void *service, int pid);

    /* Tells an open session the address of its peer. NULL where the service does not care; never called where
     * there is no network. */
    void (*peer)(void *service, void *session, const struct sockaddr_in *address);

    /* Takes bytes of the request. Sets *used to the bytes consumed; may write to out at once (an
     * acknowledgement). 1: a request is complete. 0: more bytes are needed. Negative: the protocol is
     * violated; what was written to out is sent and the connection closed. A bad request that the protocol
     * can answer is complete (1), and reply says so. */
    int (*parse)(void *service, void *session, const char *in, size_t length, size_t *used,
                 struct buffer *out);

    /* Number of tasks (at least 1) when the complete request is cut into pieces of `chunk` units. */
    uint32_t (*split)(void *service, void *session, uint32_t chunk);

    /* Does the work of one task, 0 … split()−1, of the request cut by `chunk`. `me` counts lock waits and
     * demand. */
    void (*run)(void *service, void *session, uint32_t task, uint32_t chunk, struct counter_block *me);

    /* Writes the reply after all tasks ran. 0: keep the connection. 1: close it once the reply is sent. */
    int (*reply)(void *service, void *session, struct buffer *out);

    /* Client side. */
    size_t client_session_size;
    /* Whether the client side's settings can be used. -EINVAL: message gets one line. NULL: whatever the knob
     * tables allow can be. client_create says no more than -EINVAL of the same faults. */
    int (*client_check)(const struct config *config, char *message, size_t size);
    int (*client_create)(const struct config *config, uint64_t seed, void **client);
    void (*client_destroy)(void *client);
    int (*client_open)(void *client, void *session);
    void (*client_close)(void *client, void *session);

    /* Tells an open session its own end of the connection, once that is established and before the first ask.
     * NULL where the service does not care; never called where there is no network. */
    void (*client_address)(void *client, void *session, const struct sockaddr_in *address);

    /* Writes the next request, drawing its content from random; returns the operation's number. */
    int (*ask)(void *client, void *session, struct random *random, struct buffer *out);

    /* Takes bytes of the reply; may write to out (the second half of a request in two steps).
     * 1: complete and right. 0: more bytes are needed. -EBADMSG: complete but wrong. -EPROTO: cannot be
     * understood. */
    int (*answer)(void *client, void *session, const char *in, size_t length, size_t *used,
                  struct buffer *out);

    /* The peer has ended the connection while a reply was awaited, and answer has had all bytes before. 1 and
     * -EBADMSG as in answer: the end made the reply complete. 0: the reply was cut off. NULL: an end never
     * completes a reply. */
    int (*finish)(void *client, void *session);

    /* Asked after each complete reply. Nonzero: the peer announced with it that it ends the connection, which
     * is no failure: the next request needs a new one. NULL: peers never do. Where it is not, they may also
     * end a connection that is idle. */
    int (*ends)(void *client, void *session);

    /* Writes the request that a line typed by a person means, in the protocol's own words; answer then tells
     * when its reply is complete, and whether it is right no longer matters. -EINVAL: not understood. */
    int (*say)(void *client, void *session, const char *line, struct buffer *out);

    /* Writes the complete reply to what was said, `reply` being all of its bytes, as text for a person. NULL:
     * the bytes are that text. */
    int (*show)(void *client, void *session, const char *reply, size_t length, struct buffer *out);

    /* Facts that the client kept for a check of the whole run: up to `capacity` rows of three numbers (stock:
     * id, bought, sold). Returns the number of rows; NULL where there are none. */
    size_t (*ledger)(void *client, int64_t (*rows)[3], size_t capacity);
};

#endif
