#include "result.h"

size_t result_operations(const struct service_ops *service) {
    size_t count = 0;
    while (service->operations[count])
        count++;
    return count;
}

size_t result_size(size_t operations, size_t clients) {
    size_t histograms = 2 * operations + 1;
    return sizeof(struct load_result) + histograms * sizeof(struct histogram) + clients * sizeof(uint64_t);
}

void result_place(struct load_result *result, size_t operations) {
    result->operations = operations;
    result->histogram = (struct histogram *)(result + 1);
    result->service = result->histogram + operations;
    result->lag = result->service + operations;
    result->client_count = (uint64_t *)(result->lag + 1);
}
