#include "tally.h"

#include <errno.h>
#include <stdlib.h>

int tally_create(struct load_result *tally, const struct service_ops *service, int open) {
    while (service->operations[tally->operations])
        tally->operations++;
    tally->open = open;
    tally->histogram = calloc(tally->operations, sizeof(struct histogram));
    tally->lag = calloc(1, sizeof(struct histogram));
    tally->service = open ? calloc(tally->operations, sizeof(struct histogram)) : NULL;
    return tally->histogram && tally->lag && (tally->service || !open) ? 0 : -ENOMEM;
}

void tally_destroy(struct load_result *tally) {
    free(tally->histogram);
    free(tally->lag);
    free(tally->service);
}

void tally_add_errors(struct load_errors *sum, const struct load_errors *part) {
#define ADD_ERROR(name, help) sum->name += part->name;
    LOAD_ERROR_LIST(ADD_ERROR)
#undef ADD_ERROR
}

static void add_histograms(struct load_result *sum, const struct load_result *part) {
    for (uint64_t i = 0; i < part->operations; i++) {
        histogram_merge(&sum->histogram[i], &part->histogram[i]);
        if (sum->service && part->service)
            histogram_merge(&sum->service[i], &part->service[i]);
    }
    if (sum->lag)
        histogram_merge(sum->lag, part->lag);
}

void tally_merge(struct load_result *sum, const struct load_result *part) {
    add_histograms(sum, part);
    tally_add_errors(&sum->errors, &part->errors);
    tally_add_errors(&sum->errors_outside, &part->errors_outside);
    if (part->connect_max_ns > sum->connect_max_ns)
        sum->connect_max_ns = part->connect_max_ns;
    for (int i = 0; i < LOAD_BINS; i++) {
        sum->bin_count[i] += part->bin_count[i];
        sum->bin_response[i] += part->bin_response[i];
        sum->bin_planned[i] += part->bin_planned[i];
    }
    sum->open |= part->open;
    sum->backlog[0] += part->backlog[0];
    sum->backlog[1] += part->backlog[1];
#define ADD(name) sum->name += part->name
    ADD(clients), ADD(connect_ns), ADD(think_ns), ADD(response_ns), ADD(generator_ns), ADD(connecting_ns);
    ADD(planned), ADD(sent), ADD(backlog_peak), ADD(unfinished), ADD(unfinished_ns);
    ADD(in_system_ns), ADD(sojourn_ns);
#undef ADD
}
