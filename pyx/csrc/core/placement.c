#define _GNU_SOURCE
#include "placement.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

int placement_bind(const char *cpus) {
    if (!*cpus)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const char *at = cpus;;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at || first < 0)
            return -EINVAL;
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            if (end == at)
                return -EINVAL;
        }
        if (last < first || last >= CPU_SETSIZE)
            return -EINVAL;
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET((size_t)cpu, &set);
        if (!*end)
            break;
        if (*end != ',')
            return -EINVAL;
        at = end + 1;
    }
    return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}
