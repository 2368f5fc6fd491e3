/* One running server: a service, a server and a listening socket put together. Used by the executable and by
 * the extension's in-process servers alike. */
#ifndef KNEEPOINT_HOST_H
#define KNEEPOINT_HOST_H

#include "config.h"
#include "counters.h"
#include <stddef.h>
#include <stdint.h>

struct host;

/* Checks the settings against the knobs of both parts, fills the defaults, binds and starts. On failure
 * message gets one line: what, and what is allowed. -EINVAL means that the request was wrong, anything else
 * that the system refused. What goes wrong later, and nobody else can be told, complain is told in one line,
 * from any thread or process of the server; NULL: nobody is. */
int host_start(const char *service, const char *server, const char *address, uint16_t port,
               struct config *config, struct counters *counters, void (*complain)(const char *line),
               char *message, size_t size, struct host **out);

uint16_t host_port(const struct host *host);

/* Stops, joins, writes down what must be kept, and frees everything; 0 or the first error. */
int host_stop(struct host *host);

#endif
