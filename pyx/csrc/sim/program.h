/* A compiled model: what every run of it shares and none changes.
 *
 * The arrays belong to whoever made the program and outlive it. Handles in the code count from 1; 0 is none:
 * of a record the index of its first word in the store, of a thread or a fifo its number in order. A list is
 * a record: its length, then its elements. */
#ifndef KNEEPOINT_SIM_PROGRAM_H
#define KNEEPOINT_SIM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROGRAM_REGISTERS = 512,      /* of a frame, at most */
    PROGRAM_CPUS = 64,            /* at most: a thread's allowed CPUs are bits of a word */
    PROGRAM_THREADS = 1000000,    /* at most */
    PROGRAM_FIFO_WIDTH = 4,       /* words of an item, at most */
    PROGRAM_FIFO_ITEMS = 1 << 20, /* in a fifo, at most */
    PROGRAM_REPLIES = 1 << 27,    /* in a window, at most */
    PROGRAM_CALLS = 1 << 20,      /* waiting for their moment, at most */
};

union word {
    double f;
    int64_t i;
};

struct instruction {
    uint16_t op, a, b, c;
};

struct program_thread {
    int64_t entry, group;
    uint64_t cpus; /* bit k: may use CPU k */
    int64_t agent; /* needs no CPU */
};

/* Called at a moment; its arguments are put into its first registers. */
struct program_function {
    int64_t entry, arguments;
};

struct program_fifo {
    int64_t width, items; /* words of an item; how many there are at first */
};

/* Constants of the kernel's scheduler: models/des/machine.py says what each means. */
struct program_scheduler {
    double base_slice, tick, hot, balance, stays, search, half_life, fades;
};

struct program {
    const struct instruction *code;
    const union word *frames; /* first values of each thread's registers, then of each function's */
    const struct program_thread *threads;
    const struct program_function *functions;
    const union word *store;
    const struct program_fifo *fifos;
    const union word *items; /* of all fifos, one after the other */
    const double *tables;    /* one after the other: table k from starts[k] to starts[k + 1] */
    const int64_t *starts;
    int64_t instructions, frame_words, thread_count, function_count, store_words, fifo_count, table_count,
        samples, counters, costs, groups, cpus;
    struct program_scheduler scheduler;
};

/* Registers that a frame needs, or −1 − the first instruction whose operands or opcode are out of range. The
 * frames are not looked at. */
int64_t program_registers(const struct program *program);

/* NULL, or what is wrong in the rest of the program. */
const char *program_check(const struct program *program);

#endif
