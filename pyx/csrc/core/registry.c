#include "registry.h"
#include "load.h"
#include "probe.h"

#include <string.h>

/* Weak: a program that links no variant of a kind finds none of it. */
#define HIDDEN_OR_NONE __attribute__((weak, visibility("hidden")))

#define REGISTRY(kind)                                                                                       \
    extern const struct kind##_ops *const __start_kneepoint_##kind[] HIDDEN_OR_NONE;                         \
    extern const struct kind##_ops *const __stop_kneepoint_##kind[] HIDDEN_OR_NONE;                          \
                                                                                                             \
    const struct kind##_ops *registry_##kind##_at(size_t i) {                                                \
        size_t count = (size_t)(__stop_kneepoint_##kind - __start_kneepoint_##kind);                         \
        for (size_t k = 0; k < count; k++) {                                                                 \
            size_t before = 0;                                                                               \
            for (size_t other = 0; other < count; other++)                                                   \
                before +=                                                                                    \
                    strcmp(__start_kneepoint_##kind[other]->name, __start_kneepoint_##kind[k]->name) < 0;    \
            if (before == i)                                                                                 \
                return __start_kneepoint_##kind[k];                                                          \
        }                                                                                                    \
        return NULL;                                                                                         \
    }                                                                                                        \
                                                                                                             \
    const struct kind##_ops *registry_##kind(const char *name) {                                             \
        for (size_t i = 0; registry_##kind##_at(i); i++)                                                     \
            if (!strcmp(registry_##kind##_at(i)->name, name))                                                \
                return registry_##kind##_at(i);                                                              \
        return NULL;                                                                                         \
    }

REGISTRY(server)
REGISTRY(service)
REGISTRY(load)
REGISTRY(probe)
