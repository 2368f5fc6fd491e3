/* Runs a compiled model, of which tests/sim_image.py wrote the file: sim_runs FILE replies threads.
 *
 * First every allocation fails once, in turn, which must come out as -ENOMEM and leave nothing behind. Then
 * several threads run the model at once, as replications do. Prints how many allocations failed, and how many
 * replies came. */
#include "sim/sim.h"
#include "sim/vm.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRICES = PRICE_COUNT, SCHEDULER = 8, MOST = 64 };

static long left = -1; /* allocations until one fails; below 0: none does */

static bool fails(void) {
    return left >= 0 && left-- == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    return fails() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

static struct program program;
static struct draw_table draws;
static const double *numbers; /* of the scheduler, prices, costs */
static int64_t *first;
static int64_t wanted;

/* So many bytes more of the file. A part of its own, so that the sanitizer sees who reads beyond it. */
static const void *part(FILE *file, int64_t count, size_t bytes) {
    void *memory = __real_malloc((size_t)count * bytes + (count == 0));
    if (!memory || fread(memory, bytes, (size_t)count, file) != (size_t)count) {
        fprintf(stderr, "the file is too short\n");
        exit(2);
    }
    return memory;
}

static void load(FILE *file) {
    int64_t sizes[14];
    if (fread(sizes, sizeof *sizes, 14, file) != 14)
        exit(2);
    struct program *p = &program;
    p->instructions = sizes[0], p->frame_words = sizes[1], p->thread_count = sizes[2];
    p->function_count = sizes[3], p->store_words = sizes[4], p->fifo_count = sizes[5],
    p->table_count = sizes[7];
    p->samples = sizes[9], p->counters = sizes[10], p->costs = sizes[11], p->groups = sizes[12],
    p->cpus = sizes[13];
    numbers = part(file, SCHEDULER + PRICES + p->costs, sizeof *numbers);
    memcpy(&p->scheduler, numbers, sizeof p->scheduler);
    p->code = part(file, p->instructions, sizeof *p->code);
    const int64_t frames = p->thread_count + p->function_count, given = p->frame_words;
    const union word *images = part(file, frames * given, sizeof *images);
    p->threads = part(file, p->thread_count, sizeof *p->threads);
    p->functions = part(file, p->function_count, sizeof *p->functions);
    p->store = part(file, p->store_words, sizeof *p->store);
    p->fifos = part(file, p->fifo_count, sizeof *p->fifos);
    p->items = part(file, sizes[6], sizeof *p->items);
    p->starts = part(file, p->table_count + 1, sizeof *p->starts);
    p->tables = part(file, sizes[8], sizeof *p->tables);
    const int64_t needed = program_registers(p);
    p->frame_words = needed > given ? needed : given;
    union word *whole = __real_calloc((size_t)(frames * p->frame_words), sizeof *whole);
    for (int64_t k = 0; k < frames; k++)
        memcpy(whole + k * p->frame_words, images + k * given, (size_t)given * sizeof *whole);
    free((void *)images);
    p->frames = whole;
    first = __real_calloc((size_t)p->thread_count, sizeof *first);
    for (int64_t k = 0; k < p->thread_count; k++)
        first[k] = k;
}

static void unload(void) {
    const struct program *p = &program;
    const void *parts[] = {numbers,  p->code,  p->frames, p->threads, p->functions, p->store,
                           p->fifos, p->items, p->starts, p->tables,  first};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        free((void *)parts[k]);
}

/* Replies, or -errno. */
static int64_t run(uint64_t seed) {
    const struct sim_settings settings = {.prices = numbers + SCHEDULER,
                                          .costs = numbers + SCHEDULER + PRICES,
                                          .first = first,
                                          .seed = seed,
                                          .warm = wanted / 10,
                                          .replies = wanted,
                                          .span = INFINITY};
    struct sim sim;
    int64_t result = sim_create(&sim, &program, &draws, &settings);
    while (result == 0 && sim_advance(&sim, 1))
        ;
    if (result == 0) {
        sim_close(&sim);
        result = sim.failure == FAILURE_NOT      ? (int64_t)sim.kept
                 : sim.failure == FAILURE_MEMORY ? -ENOMEM
                                                 : -EINVAL;
    }
    sim_destroy(&sim);
    return result;
}

static void *runner(void *argument) {
    int64_t *slot = argument;
    *slot = run((uint64_t)*slot);
    return NULL;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    FILE *file = fopen(words[1], "rb");
    if (!file)
        return 2;
    load(file);
    fclose(file);
    if (program_check(&program)) {
        fprintf(stderr, "%s\n", program_check(&program));
        return 2;
    }
    draw_prepare(&draws);
    wanted = atol(words[2]);
    long failed = 0;
    for (int64_t got = -ENOMEM; got == -ENOMEM; failed++) {
        left = failed;
        got = run(1);
        if (got < 0 && got != -ENOMEM)
            return 3;
    }
    left = -1;
    pthread_t threads[MOST];
    int64_t slots[MOST], total = 0;
    const int many = atoi(words[3]) < MOST ? atoi(words[3]) : MOST;
    for (int k = 0; k < many; k++) {
        slots[k] = k;
        pthread_create(threads + k, NULL, runner, slots + k);
    }
    for (int k = 0; k < many; k++) {
        pthread_join(threads[k], NULL);
        total += slots[k];
    }
    unload();
    printf("%ld %ld\n", failed - 1, (long)total);
    return 0;
}
