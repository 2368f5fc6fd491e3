#define _GNU_SOURCE
#include "stock_presence.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct stock_presence {
    _Atomic long threads; /* clients, where there are no processes */
    int processes;
    _Atomic int *client_of; /* in shared memory: processes that have a client, and zeros */
};

static size_t size_of(const struct stock_presence *presence) {
    return (size_t)presence->processes * sizeof(*presence->client_of);
}

int stock_presence_create(int processes, struct stock_presence **out) {
    struct stock_presence *presence = calloc(1, sizeof(*presence));
    if (!presence)
        return -ENOMEM;
    presence->processes = processes;
    if (processes) {
        void *memory =
            mmap(NULL, size_of(presence), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            free(presence);
            return -ENOMEM;
        }
        presence->client_of = memory;
    }
    *out = presence;
    return 0;
}

void stock_presence_destroy(struct stock_presence *presence) {
    if (presence->processes)
        munmap(presence->client_of, size_of(presence));
    free(presence);
}

/* Where there are more processes than was said, a client too many is not counted. */
static void replace(struct stock_presence *presence, int old, int new) {
    for (int i = 0; i < presence->processes; i++) {
        int found = old;
        if (atomic_load(&presence->client_of[i]) == old &&
            atomic_compare_exchange_strong(&presence->client_of[i], &found, new))
            return;
    }
}

static int is_empty(const struct stock_presence *presence) {
    for (int i = 0; i < presence->processes; i++)
        if (atomic_load(&presence->client_of[i]))
            return 0;
    return 1;
}

void stock_presence_enter(struct stock_presence *presence) {
    if (presence->processes)
        replace(presence, 0, getpid());
    else
        atomic_fetch_add(&presence->threads, 1);
}

int stock_presence_leave(struct stock_presence *presence) {
    if (!presence->processes)
        return atomic_fetch_sub(&presence->threads, 1) == 1;
    replace(presence, getpid(), 0);
    return is_empty(presence);
}

int stock_presence_lost(struct stock_presence *presence, int process) {
    replace(presence, process, 0);
    return is_empty(presence);
}
