#include "fifo.h"

#include <errno.h>
#include <stdlib.h>

int fifo_grow(struct fifo *fifo) {
    if (fifo->capacity >= PROGRAM_FIFO_ITEMS)
        return -ENOSPC;
    const uint32_t capacity = fifo->capacity ? 2 * fifo->capacity : 8;
    union word *words = malloc((size_t)capacity * fifo->width * sizeof *words);
    if (!words)
        return -ENOMEM;
    for (uint32_t k = 0; k < fifo->count; k++)
        fifo_copy(fifo, words + (size_t)k * fifo->width, fifo_item(fifo, k));
    free(fifo->words);
    fifo->words = words;
    fifo->capacity = capacity;
    fifo->head = 0;
    return 0;
}

void fifo_free(struct fifo *fifo) {
    free(fifo->words);
    fifo->words = NULL;
}
