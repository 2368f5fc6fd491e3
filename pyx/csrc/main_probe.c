/* kneepoint-probe PROBE [--kind process|thread] [--pairs N] [--size BYTES] [--cpus 0,1] [--bound 0|1]
 *                       [--iterations N] [--budget NS] [--capacity N] [--alive FD] [name=value …]
 *
 * Runs one probe once (probing/run.h) and writes what it measured to standard output, as JSON. The process is
 * small and has no other threads, so that a fork of it costs little. Exit status: 0 done, 1 it failed, 2 what
 * was asked for cannot be; then one line on standard error says why. */
#include "core/arguments.h"
#include "core/registry.h"
#include "probing/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(int status, const char *message) {
    fprintf(stderr, "kneepoint-probe: %s\n", message);
    return status;
}

static int read_cpus(const char *text, struct probing_plan *plan) {
    while (*text) {
        char *end;
        long cpu = strtol(text, &end, 10);
        if (end == text || cpu < 0 || cpu >= 1024 || plan->cpus == PROBING_MOST_CPUS ||
            (*end && (*end != ',' || !end[1])))
            return -EINVAL;
        plan->cpu[plan->cpus++] = (int)cpu;
        text = *end ? end + 1 : end;
    }
    return plan->cpus ? 0 : -EINVAL;
}

static int read_words(int count, char **words, struct config *config, struct probing_plan *plan,
                      const char **name) {
    const char *kind = "process", *pairs = "1", *size = "8", *cpus = "0", *bound = "1", *iterations = "0";
    const char *budget = "100000000", *capacity = "5000", *alive = NULL;
    const char **const names[] = {name, NULL};
    const struct argument_option options[] = {
        {"--kind", &kind},     {"--pairs", &pairs},
        {"--size", &size},     {"--cpus", &cpus},
        {"--bound", &bound},   {"--iterations", &iterations},
        {"--budget", &budget}, {"--capacity", &capacity},
        {"--alive", &alive},   {0},
    };
    int64_t n_pairs, n_size, n_bound, n_iterations, n_capacity, n_alive = -1;
    *plan = (struct probing_plan){.config = config};
    if (arguments_read(count, words, names, options, config) ||
        arguments_number(pairs, PROBING_MOST_PAIRS, &n_pairs) || arguments_number(size, 1 << 26, &n_size) ||
        arguments_number(bound, 1, &n_bound) || arguments_number(iterations, INT64_MAX, &n_iterations) ||
        arguments_number(budget, 60000000000, &plan->budget) ||
        arguments_number(capacity, 1 << 20, &n_capacity) ||
        (alive && (arguments_number(alive, INT_MAX, &n_alive) || fcntl((int)n_alive, F_GETFD) < 0)) ||
        read_cpus(cpus, plan) || !n_pairs || !n_capacity ||
        (strcmp(kind, "process") && strcmp(kind, "thread")))
        return -EINVAL;
    plan->processes = !strcmp(kind, "process");
    plan->pairs = (int)n_pairs;
    plan->size = (size_t)n_size;
    plan->bound = (int)n_bound;
    plan->iterations = (uint64_t)n_iterations;
    plan->capacity = (size_t)n_capacity;
    plan->alive = (int)n_alive;
    return 0;
}

static int fill(struct config *config, const struct probe_ops *ops) {
    char message[512];
    for (size_t i = 0; i < config_count(config); i++) {
        if (knob_find(ops->knobs, config_name_at(config, i)))
            continue;
        snprintf(message, sizeof(message), "%s has no setting \"%s\"", ops->name, config_name_at(config, i));
        return fail(2, message);
    }
    if (config_fill(config, ops->knobs))
        return fail(1, "out of memory");
    for (const struct knob *knob = ops->knobs; knob && knob->name; knob++)
        if (config_check(knob, config_text(config, knob->name), message, sizeof(message)))
            return fail(2, message);
    return 0;
}

static void write_notes(const struct probing_record *record) {
    const char *between = "";
    printf("\"notes\": {");
    for (int i = 0; i < PROBE_NOTES && *record->notes[i].name; i++) {
        if (!isfinite(record->notes[i].value)) /* a mean of nothing: JSON has no word for it */
            continue;
        printf("%s\"%s\": %.15g", between, record->notes[i].name, record->notes[i].value);
        between = ", ";
    }
    printf("}, ");
}

static void write_end(const struct probing_record *record, int pair, int end) {
    printf("{\"pair\": %d, \"end\": %d, \"cpu_first\": %d, \"cpu_last\": %d, ", pair, end, record->cpu_first,
           record->cpu_last);
#define FIELD(name) printf("\"" #name "\": %llu, ", (unsigned long long)record->name)
    FIELD(migrations), FIELD(voluntary), FIELD(involuntary), FIELD(units), FIELD(measured), FIELD(busy_ns);
    FIELD(began), FIELD(ended), FIELD(batch), FIELD(stride), FIELD(sent), FIELD(received);
#undef FIELD
    printf("\"speed_before\": %.6g, \"speed_after\": %.6g, ", record->speed_before, record->speed_after);
    write_notes(record);
    printf("\"samples\": [");
    for (uint64_t i = 0; i < record->count; i++)
        printf("%s%.5g", i ? "," : "", record->sample[i]);
    printf("]}");
}

static void write_result(const struct probing_plan *plan, const struct probing_result *result) {
    const struct probe_ops *ops = plan->ops;
    printf("{\"probe\": \"%s\", \"unit_of_work\": \"%s\", \"kind\": \"%s\", \"pairs\": %d, \"size\": %zu, ",
           ops->name, result->form.unit, plan->processes ? "process" : "thread", plan->pairs, result->size);
    printf("\"clock_ns\": %.4g, \"loop_ns\": %.4g, \"released\": %lld, \"finished\": %lld, \"ends\": [",
           result->clock_ns, result->loop_ns, (long long)result->released, (long long)result->finished);
    for (int i = 0; i < plan->pairs * result->form.ends; i++) {
        printf(i ? ",\n" : "\n");
        write_end(&result->record[i], i / result->form.ends, i % result->form.ends);
    }
    printf("]}\n");
}

static int run(const struct probing_plan *plan) {
    struct probing_result result;
    char message[256];
    int rc = probing_run(plan, &result, message, sizeof(message));
    if (rc)
        return fail(rc == -EINVAL ? 2 : 1, *message ? message : strerror(-rc));
    write_result(plan, &result);
    probing_free(&result);
    return fflush(stdout) || ferror(stdout) ? fail(1, "cannot write the result") : 0;
}

int main(int count, char **words) {
    struct config *config;
    struct probing_plan plan;
    const char *name = NULL;
    if (config_create(&config))
        return fail(1, "out of memory");
    int status = 0;
    if (read_words(count, words, config, &plan, &name))
        status =
            fail(2, "usage: kneepoint-probe PROBE [--kind process|thread] [--pairs N] [--size BYTES] "
                    "[--cpus 0,1] [--bound 0|1] [--iterations N] [--budget NS] [--capacity N] [--alive FD] "
                    "[name=value ...]");
    else if (!(plan.ops = registry_probe(name)))
        status = fail(2, "no such probe");
    else
        status = fill(config, plan.ops);
    if (!status)
        status = run(&plan);
    config_destroy(config);
    return status;
}
