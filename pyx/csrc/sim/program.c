#include "program.h"

#include "opcodes.h"

static const char *const operands[] = {
#define OPCODE_OPERANDS(name, kinds) kinds,
    OPCODE_LIST(OPCODE_OPERANDS)
#undef OPCODE_OPERANDS
};

static int64_t widest(const struct program *p) {
    int64_t width = 1;
    for (int64_t i = 0; i < p->fifo_count; i++)
        if (p->fifos[i].width > width)
            width = p->fifos[i].width;
    return width;
}

/* Registers that operand `which` of the instruction needs; −1: out of range. */
static int64_t needs(const struct program *p, struct instruction x, int which, int64_t width) {
    const uint16_t values[] = {x.a, x.b, x.c};
    const int64_t value = values[which];
    switch (operands[x.op][which]) {
    case 'r':
        return value + 1;
    case 'q':
        return value + width;
    case 'p':
        return x.b < p->function_count ? value + p->functions[x.b].arguments : -1;
    case 't':
        return value < p->table_count ? 0 : -1;
    case 'k':
        return value < p->costs ? 0 : -1;
    case 'n':
        return value < p->counters ? 0 : -1;
    case 'f':
        return value < p->function_count ? 0 : -1;
    case 'j':
        return x.b + ((int64_t)x.c << 16) < p->instructions ? 0 : -1;
    case 's':
        return value < p->instructions ? 0 : -1;
    default:
        return 0;
    }
}

int64_t program_registers(const struct program *p) {
    const int64_t width = widest(p);
    int64_t most = 1;
    for (int64_t at = 0; at < p->instructions; at++) {
        if (p->code[at].op >= OPCODE_COUNT)
            return -1 - at;
        for (int which = 0; which < 3 && operands[p->code[at].op][which]; which++) {
            const int64_t registers = needs(p, p->code[at], which, width);
            if (registers < 0 || registers > PROGRAM_REGISTERS)
                return -1 - at;
            if (registers > most)
                most = registers;
        }
    }
    return most;
}

static const char *check_threads(const struct program *p) {
    if (p->thread_count < 1 || p->thread_count > PROGRAM_THREADS)
        return "there must be 1 to 1,000,000 threads";
    const uint64_t every = p->cpus < 64 ? ((uint64_t)1 << p->cpus) - 1 : UINT64_MAX;
    for (int64_t i = 0; i < p->thread_count; i++) {
        const struct program_thread *thread = p->threads + i;
        if (thread->entry < 0 || thread->entry >= p->instructions)
            return "a thread begins outside the code";
        if (thread->group < 0 || thread->group >= p->groups)
            return "a thread is in a group that does not exist";
        if (!thread->agent && !(thread->cpus & every))
            return "a thread may use none of the CPUs";
    }
    return NULL;
}

static const char *check_functions(const struct program *p) {
    for (int64_t i = 0; i < p->function_count; i++) {
        if (p->functions[i].entry < 0 || p->functions[i].entry >= p->instructions)
            return "a function begins outside the code";
        if (p->functions[i].arguments < 0 || p->functions[i].arguments > p->frame_words)
            return "a function has more arguments than registers";
    }
    return NULL;
}

static const char *check_fifos(const struct program *p) {
    for (int64_t i = 0; i < p->fifo_count; i++) {
        if (p->fifos[i].width < 1 || p->fifos[i].width > PROGRAM_FIFO_WIDTH)
            return "items of a fifo must have 1 to 4 words";
        if (p->fifos[i].items < 0 || p->fifos[i].items > PROGRAM_FIFO_ITEMS)
            return "a fifo holds at most a million items";
    }
    return NULL;
}

const char *program_check(const struct program *p) {
    if (p->instructions < 1)
        return "there is no code";
    const uint16_t last = p->code[p->instructions - 1].op;
    if (last != OP_JMP && last != OP_RET && last != OP_END && last != OP_FAIL)
        return "the code must end with JMP, RET, END or FAIL";
    if (p->store_words < 1)
        return "the store must hold its unused first word";
    if (p->cpus < 1 || p->cpus > PROGRAM_CPUS)
        return "there must be 1 to 64 CPUs";
    if (!(p->scheduler.base_slice > 0 && p->scheduler.tick > 0))
        return "the scheduler's slice and tick must be above 0 s";
    const char *wrong = check_threads(p);
    if (!wrong)
        wrong = check_functions(p);
    return wrong ? wrong : check_fifos(p);
}
