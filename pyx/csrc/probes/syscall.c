/* A system call that does nothing: the way into the kernel and back. */
#define _GNU_SOURCE
#include "../core/probe.h"
#include "../core/registry.h"

#include <sys/syscall.h>
#include <unistd.h>

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "getppid", "getppid|yield", "",
     "the cheapest call; or sched_yield with nobody to yield to"},
    {0},
};

static int64_t work(struct probe_end *me, uint64_t count) {
    long number = config_is(me->config, "variant", "yield") ? SYS_sched_yield : SYS_getppid;
    for (uint64_t i = 0; i < count; i++)
        syscall(number);
    return 0;
}

static const struct probe_ops syscall_probe = {
    .name = "syscall",
    .summary = "a system call that does nothing",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "call", .ends = 1},
    .work = work,
};
REGISTER_PROBE(syscall_probe);
