/* What it costs to ask for the time. */
#define _GNU_SOURCE
#include "../core/clock.h"
#include "../core/probe.h"
#include "../core/registry.h"

#if defined(__x86_64__) || defined(__i386__)
#define CLOCKS "monotonic|realtime|thread_cputime|tsc"
#define READ_COUNTER() __builtin_ia32_rdtsc()
#else
#define CLOCKS "monotonic|realtime|thread_cputime"
#define READ_COUNTER() 0ULL /* no variant reads it */
#endif

static const struct knob knobs[] = {
    {"variant", KNOB_CHOICE, "monotonic", CLOCKS, "",
     "which clock; thread_cputime is a system call; tsc (x86): the processor's counter, without a fence"},
    {0},
};

static void read_counter(uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t now = READ_COUNTER();
        __asm__ volatile("" ::"r"(now));
    }
}

static int64_t work(struct probe_end *me, uint64_t count) {
    if (config_is(me->config, "variant", "tsc")) {
        read_counter(count);
        return 0;
    }
    clockid_t clock = config_is(me->config, "variant", "realtime")         ? CLOCK_REALTIME
                      : config_is(me->config, "variant", "thread_cputime") ? CLOCK_THREAD_CPUTIME_ID
                                                                           : CLOCK_MONOTONIC;
    for (uint64_t i = 0; i < count; i++) {
        int64_t now = clock_read(clock);
        __asm__ volatile("" ::"r"(now));
    }
    return 0;
}

static const struct probe_ops clock_probe = {
    .name = "clock",
    .summary = "a reading of a clock",
    .knobs = knobs,
    .kinds = PROBE_PROCESSES | PROBE_THREADS,
    .form = {.unit = "reading", .ends = 1},
    .work = work,
};
REGISTER_PROBE(clock_probe);
