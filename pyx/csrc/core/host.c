#include "host.h"

#include "registry.h"
#include "sock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct host {
    const struct service_ops *service;
    const struct server_ops *server;
    void *state;
    void *self;
    int listener;
    uint16_t port;
};

static int check(const struct service_ops *service, const struct server_ops *server, struct config *config,
                 char *message, size_t size) {
    const struct knob *tables[] = {service->knobs, server->knobs, server_common_knobs};
    for (size_t i = 0; i < config_count(config); i++) {
        const struct knob *knob = NULL;
        for (size_t t = 0; t < 3 && !knob; t++)
            knob = knob_find(tables[t], config_name_at(config, i));
        if (!knob) {
            snprintf(message, size, "%.64s: not a setting of service %s or server %s",
                     config_name_at(config, i), service->name, server->name);
            return -EINVAL;
        }
        int rc = config_check(knob, config_value_at(config, i), message, size);
        if (rc)
            return rc;
    }
    for (size_t t = 0; t < 3; t++) {
        int rc = config_fill(config, tables[t]);
        if (rc)
            return rc;
    }
    return server->processes ? config_set(config, "processes", "yes") : 0;
}

static int bring_up(struct host *host, const char *address, uint16_t port, struct config *config,
                    struct counters *counters, void (*complain)(const char *line), char *message,
                    size_t size) {
    int rc = host->service->create(config, host->server->threads(config), message, size, &host->state);
    if (rc)
        return rc;
    if (host->service->complain_to)
        host->service->complain_to(host->state, complain);
    host->listener = sock_listen(address, port, (int)config_int(config, "backlog"));
    if (host->listener < 0) {
        rc = host->listener;
        snprintf(message, size, "cannot listen on %s:%u: %s", address, port, strerror(-rc));
        goto no_listener;
    }
    host->port = sock_port(host->listener);
    struct server_env env = {config, host->service, host->state, host->listener, counters};
    rc = host->server->create(&env, message, size, &host->self);
    if (rc)
        goto no_server;
    rc = host->server->start(host->self);
    if (!rc)
        return 0;
    host->server->destroy(host->self);
no_server:
    close(host->listener);
no_listener:
    host->service->destroy(host->state);
    return rc;
}

int host_start(const char *service, const char *server, const char *address, uint16_t port,
               struct config *config, struct counters *counters, void (*complain)(const char *line),
               char *message, size_t size, struct host **out) {
    *message = 0;
    struct host *host = calloc(1, sizeof(*host));
    if (!host)
        return -ENOMEM;
    host->service = registry_service(service);
    host->server = registry_server(server);
    int rc = -EINVAL;
    if (!host->service)
        snprintf(message, size, "%.64s: no such service", service);
    else if (!host->service->create)
        snprintf(message, size, "%.64s: has a client side only, so no server of ours can serve it", service);
    else if (!host->server)
        snprintf(message, size, "%.64s: no such server", server);
    else
        rc = check(host->service, host->server, config, message, size);
    if (!rc)
        rc = bring_up(host, address, port, config, counters, complain, message, size);
    if (rc) {
        if (!*message)
            snprintf(message, size, "cannot start %.64s on %.64s: %s", service, server, strerror(-rc));
        free(host);
        return rc;
    }
    *out = host;
    return 0;
}

uint16_t host_port(const struct host *host) {
    return host->port;
}

int host_stop(struct host *host) {
    int rc = host->server->stop(host->self);
    host->server->destroy(host->self);
    close(host->listener);
    int saved = host->service->save ? host->service->save(host->state) : 0;
    host->service->destroy(host->state);
    free(host);
    return rc ? rc : saved;
}
