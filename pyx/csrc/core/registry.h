/* Every variant found by name, without a list: each file puts a pointer to its table into a section of the
 * program, and the linker lays them side by side. */
#ifndef KNEEPOINT_REGISTRY_H
#define KNEEPOINT_REGISTRY_H

#include "server.h"
#include "service.h"

struct load_ops;
struct probe_ops;

#define REGISTRY_ENTRY(kind, table)                                                                          \
    static const struct kind##_ops *const registered_##kind                                                  \
        __attribute__((used, section("kneepoint_" #kind))) = &table

#define REGISTER_SERVER(table) REGISTRY_ENTRY(server, table)
#define REGISTER_SERVICE(table) REGISTRY_ENTRY(service, table)
#define REGISTER_LOAD(table) REGISTRY_ENTRY(load, table)
#define REGISTER_PROBE(table) REGISTRY_ENTRY(probe, table)

/* The i-th variant in the order of names, or NULL behind the last. */
const struct server_ops *registry_server_at(size_t i);
const struct service_ops *registry_service_at(size_t i);
const struct load_ops *registry_load_at(size_t i);
const struct probe_ops *registry_probe_at(size_t i);

/* The variant of that name, or NULL. */
const struct server_ops *registry_server(const char *name);
const struct service_ops *registry_service(const char *name);
const struct load_ops *registry_load(const char *name);
const struct probe_ops *registry_probe(const char *name);

#endif
