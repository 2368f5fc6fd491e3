#include "vm.h"

#include "cpu.h"
#include "machine.h"
#include "opcodes.h"

#include <errno.h>

/* What a thread does when it waits. False: its program goes on at once. */

static void agent_until(struct sim *sim, struct thread *thread, double seconds, enum thread_state state) {
    thread->state = state;
    events_push(&sim->events, seconds, event_source(EVENT_THREAD, thread->number));
}

static void run(struct sim *sim, struct thread *thread, double seconds) {
    if (thread->agent) {
        agent_until(sim, thread, seconds, THREAD_RUNNING);
        return;
    }
    thread->need += seconds;
    if (thread->state == THREAD_RUNNING)
        cpu_resume(sim, thread->cpu);
}

static void leave(struct sim *sim, struct thread *thread, enum thread_state state) {
    thread->slept++;
    if (thread->agent)
        thread->state = state;
    else
        cpu_leave(sim, thread, state);
}

static void sleep_(struct sim *sim, struct thread *thread) {
    if (!thread->wake_pending) {
        leave(sim, thread, THREAD_SLEEPING);
        return;
    }
    thread->wake_pending = false;
    if (thread->agent)
        agent_until(sim, thread, 0, THREAD_RUNNING);
    else if (thread->state == THREAD_RUNNING)
        cpu_resume(sim, thread->cpu);
}

static void pause_(struct sim *sim, struct thread *thread, double seconds) {
    events_push(&sim->events, seconds, event_source(EVENT_THREAD, thread->number));
    leave(sim, thread, THREAD_PAUSED);
}

static void spin(struct sim *sim, struct thread *thread) {
    thread->spinning = true;
    thread->need = INFINITY;
    if (!thread->agent && thread->state == THREAD_RUNNING)
        cpu_resume(sim, thread->cpu);
}

static void follow(struct sim *sim, struct thread *thread, struct thread *other) {
    struct thread **last = &other->followers;
    while (*last)
        last = &(*last)->next_follower;
    *last = thread;
    thread->next_follower = NULL;
    leave(sim, thread, THREAD_FOLLOWING);
}

static void end(struct sim *sim, struct thread *thread) {
    thread->ending = true;
    events_push(&sim->events, 0, event_source(EVENT_THREAD, thread->number));
}

static enum failure call_at(struct sim *sim, double seconds, uint32_t function, const union word *arguments) {
    const int64_t place = sim_new_call(sim);
    if (place < 0)
        return place == -ENOMEM ? FAILURE_MEMORY : FAILURE_CALLS;
    sim->calls[place].function = function;
    union word *words = sim->call_words + (size_t)place * sim->call_width;
    for (int64_t k = 0; k < sim->program->functions[function].arguments; k++)
        words[k] = arguments[k];
    events_push(&sim->events, seconds, event_source(EVENT_CALL, (uint32_t)place));
    return FAILURE_NOT;
}

static int64_t next_sample(struct sim *sim) {
    const uint32_t samples = (uint32_t)sim->program->samples;
    if (sim->position == samples)
        sim->position = 0;
    const uint32_t at = sim->position++, other = at + (uint32_t)random_below(&sim->random, samples - at);
    const uint32_t chosen = sim->order[other];
    sim->order[other] = sim->order[at];
    sim->order[at] = chosen;
    return chosen;
}

/* The instruction's operands as registers. */
#define A r[ip->a]
#define B r[ip->b]
#define C r[ip->c]

#define CASE(name) op_##name:
#define GO() goto *labels[ip->op]
#define NEXT()                                                                                               \
    do {                                                                                                     \
        ip++;                                                                                                \
        GO();                                                                                                \
    } while (0)
#define FAIL(failure)                                                                                        \
    do {                                                                                                     \
        sim_fail(sim, failure, (uint32_t)(ip - code));                                                       \
        return;                                                                                              \
    } while (0)
#define REQUIRE(holds, failure)                                                                              \
    do {                                                                                                     \
        if (__builtin_expect(!(holds), 0))                                                                   \
            FAIL(failure);                                                                                   \
    } while (0)

#define OPERATE(name, expression)                                                                            \
    CASE(name) {                                                                                             \
        expression;                                                                                          \
        NEXT();                                                                                              \
    }
#define WHOLE(name, overflows)                                                                               \
    CASE(name) {                                                                                             \
        REQUIRE(!(overflows), FAILURE_BEYOND);                                                               \
        NEXT();                                                                                              \
    }
#define JUMP(target)                                                                                         \
    do {                                                                                                     \
        REQUIRE(--sim->patience > 0, FAILURE_STUCK);                                                         \
        ip = code + (target);                                                                                \
        GO();                                                                                                \
    } while (0)
#define FAR (ip->b | (uint32_t)ip->c << 16)
#define JUMP_IF(name, condition, target)                                                                     \
    CASE(name) {                                                                                             \
        if (condition)                                                                                       \
            JUMP(target);                                                                                    \
        NEXT();                                                                                              \
    }
#define COMPARE(name, condition)                                                                             \
    JUMP_IF(J##name, condition, ip->c)                                                                       \
    JUMP_IF(JN##name, !(condition), ip->c)
#define WAIT(statement)                                                                                      \
    do {                                                                                                     \
        REQUIRE(thread, FAILURE_WAITS);                                                                      \
        thread->entry = (uint32_t)(ip - code) + 1;                                                           \
        statement;                                                                                           \
        return;                                                                                              \
    } while (0)

/* Handles. A field's offset needs no check: the store is that much longer than its words. */
#define RECORD(x) REQUIRE((uint64_t)(x).i - 1 < words - 1, FAILURE_NONE)
#define ELEMENT(list, index)                                                                                 \
    RECORD(list);                                                                                            \
    REQUIRE((uint64_t)(index).i < (uint64_t)store[(list).i].i &&                                             \
                (uint64_t)((list).i + (index).i) < words - 1,                                                \
            FAILURE_INDEX)
#define FIFO(x)                                                                                              \
    REQUIRE((uint64_t)(x).i - 1 < (uint64_t)sim->program->fifo_count, FAILURE_NONE);                         \
    struct fifo *fifo = sim->fifos + (x).i - 1
#define ITEM(x)                                                                                              \
    FIFO(x);                                                                                                 \
    REQUIRE(fifo->count, FAILURE_EMPTY)
#define PUT(x, how)                                                                                          \
    FIFO(x);                                                                                                 \
    const int rc = how(fifo, &B);                                                                            \
    REQUIRE(rc == 0, rc == -ENOMEM ? FAILURE_MEMORY : FAILURE_FULL)
#define THREAD(x)                                                                                            \
    REQUIRE((uint64_t)(x).i - 1 < (uint64_t)sim->program->thread_count, FAILURE_NONE);                       \
    struct thread *other = sim->threads + (x).i - 1
#define SECONDS(x) REQUIRE((x).f >= 0, FAILURE_SECONDS)

/* Whole numbers divide as Python's do: the quotient is rounded down. */
static inline int64_t divide(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

static inline int64_t modulo(int64_t a, int64_t b) {
    const int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline double modulo_f(double a, double b) {
    const double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : copysign(rest, rest != 0 ? rest : b);
}

static void execute(struct sim *sim, struct thread *thread, uint32_t entry, union word *r) {
    static const void *const labels[] = {
#define OPCODE_LABEL(name, operands) &&op_##name,
        OPCODE_LIST(OPCODE_LABEL)
#undef OPCODE_LABEL
    };
    const struct instruction *const code = sim->program->code, *ip = code + entry;
    union word *const store = sim->store;
    const uint64_t words = (uint64_t)sim->program->store_words;
    GO();

    OPERATE(MOV, A = B)
    CASE(LOAD) {
        RECORD(B);
        A = store[B.i + ip->c];
        NEXT();
    }
    CASE(STORE) {
        RECORD(A);
        store[A.i + ip->b] = C;
        NEXT();
    }
    CASE(LOADX) {
        ELEMENT(B, C);
        A = store[B.i + 1 + C.i];
        NEXT();
    }
    CASE(STOREX) {
        ELEMENT(A, B);
        store[A.i + 1 + B.i] = C;
        NEXT();
    }
    OPERATE(FADD, A.f = B.f + C.f)
    OPERATE(FSUB, A.f = B.f - C.f)
    OPERATE(FMUL, A.f = B.f * C.f)
    CASE(FDIV) {
        REQUIRE(C.f != 0, FAILURE_ZERO);
        A.f = B.f / C.f;
        NEXT();
    }
    CASE(FMOD) {
        REQUIRE(C.f != 0, FAILURE_ZERO);
        A.f = modulo_f(B.f, C.f);
        NEXT();
    }
    OPERATE(FMIN, A.f = C.f < B.f ? C.f : B.f)
    OPERATE(FMAX, A.f = C.f > B.f ? C.f : B.f)
    OPERATE(FFLOOR, A.f = floor(B.f))
    OPERATE(FNEG, A.f = -B.f)
    OPERATE(FABS, A.f = fabs(B.f))
    WHOLE(IADD, __builtin_add_overflow(B.i, C.i, &A.i))
    WHOLE(ISUB, __builtin_sub_overflow(B.i, C.i, &A.i))
    WHOLE(IMUL, __builtin_mul_overflow(B.i, C.i, &A.i))
    CASE(IDIV) {
        REQUIRE(C.i != 0, FAILURE_ZERO);
        REQUIRE(C.i != -1 || B.i != INT64_MIN, FAILURE_BEYOND);
        A.i = divide(B.i, C.i);
        NEXT();
    }
    CASE(IMOD) {
        REQUIRE(C.i != 0, FAILURE_ZERO);
        A.i = modulo(B.i, C.i);
        NEXT();
    }
    OPERATE(IMIN, A.i = C.i < B.i ? C.i : B.i)
    OPERATE(IMAX, A.i = C.i > B.i ? C.i : B.i)
    WHOLE(INEG, __builtin_sub_overflow((int64_t)0, B.i, &A.i))
    CASE(IABS) {
        REQUIRE(B.i != INT64_MIN, FAILURE_BEYOND);
        A.i = B.i < 0 ? -B.i : B.i;
        NEXT();
    }
    OPERATE(I2F, A.f = (double)B.i)
    CASE(F2I) {
        REQUIRE(B.f > -0x1p63 && B.f < 0x1p63, FAILURE_BEYOND);
        A.i = (int64_t)B.f;
        NEXT();
    }
    OPERATE(FLT, A.i = B.f < C.f)
    OPERATE(FLE, A.i = B.f <= C.f)
    OPERATE(FEQ, A.i = B.f == C.f)
    OPERATE(ILT, A.i = B.i < C.i)
    OPERATE(ILE, A.i = B.i <= C.i)
    OPERATE(IEQ, A.i = B.i == C.i)
    OPERATE(NOT, A.i = !B.i)
    CASE(JMP) {
        JUMP(FAR);
    }
    JUMP_IF(JT, A.i, FAR)
    JUMP_IF(JF, !A.i, FAR)
    COMPARE(FLT, A.f < B.f)
    COMPARE(FLE, A.f <= B.f)
    COMPARE(FEQ, A.f == B.f)
    COMPARE(ILT, A.i < B.i)
    COMPARE(ILE, A.i <= B.i)
    COMPARE(IEQ, A.i == B.i)

    CASE(FPUT) {
        PUT(A, fifo_put);
        NEXT();
    }
    CASE(FPUTL) {
        PUT(A, fifo_put_left);
        NEXT();
    }
    CASE(FTAKE) {
        ITEM(A);
        fifo_take(fifo, &B);
        NEXT();
    }
    CASE(FPOP) {
        ITEM(A);
        fifo_pop(fifo, &B);
        NEXT();
    }
    CASE(FPEEK) {
        ITEM(A);
        fifo_copy(fifo, &B, fifo_item(fifo, 0));
        NEXT();
    }
    CASE(FLEN) {
        FIFO(B);
        A.i = fifo->count;
        NEXT();
    }
    CASE(FCLEAR) {
        FIFO(A);
        fifo->count = 0;
        NEXT();
    }

    OPERATE(NOW, A.f = sim->events.now)
    OPERATE(UNIFORM, A.f = random_unit(&sim->random))
    CASE(BELOW) {
        REQUIRE(B.i > 0, FAILURE_INDEX);
        A.i = (int64_t)random_below(&sim->random, (uint64_t)B.i);
        NEXT();
    }
    CASE(DRAW) {
        REQUIRE((uint64_t)B.i < DISTRIBUTION_COUNT, FAILURE_KIND);
        A.f = draw(sim->draws, &sim->random, B.i, C.f);
        NEXT();
    }
    CASE(SAMPLE) {
        REQUIRE(sim->program->samples, FAILURE_EMPTY);
        A.i = next_sample(sim);
        NEXT();
    }
    CASE(TABLE) {
        const int64_t first = sim->program->starts[ip->b], rows = sim->program->starts[ip->b + 1] - first;
        REQUIRE((uint64_t)C.i < (uint64_t)rows, FAILURE_INDEX);
        A.f = sim->program->tables[first + C.i];
        NEXT();
    }
    CASE(COST) {
        sim->message = ip->b;
        REQUIRE(!isnan(sim->costs[ip->b]), FAILURE_COST);
        A.f = sim->costs[ip->b];
        NEXT();
    }
    OPERATE(COUNT, sim->counters[ip->a] += B.f)
    OPERATE(ENTER, sim_entered(sim))
    CASE(DONE) {
        const enum failure failure = sim_completed(sim, A.i, B.f, C.f);
        REQUIRE(failure == FAILURE_NOT, failure);
        NEXT();
    }

    CASE(RUN) {
        SECONDS(A);
        WAIT(run(sim, thread, A.f));
    }
    CASE(SLEEP) {
        WAIT(sleep_(sim, thread));
    }
    CASE(PAUSE) {
        SECONDS(A);
        WAIT(pause_(sim, thread, A.f));
    }
    CASE(SPIN) {
        WAIT(spin(sim, thread));
    }
    CASE(FOLLOW) {
        THREAD(A);
        WAIT(follow(sim, thread, other));
    }
    CASE(END) {
        REQUIRE(thread, FAILURE_RETURN);
        WAIT(end(sim, thread));
    }
    CASE(RET) {
        REQUIRE(!thread, FAILURE_RETURN);
        return;
    }
    CASE(WAKE) {
        THREAD(B);
        A.f = machine_wake(sim, other, thread, C.f);
        NEXT();
    }
    CASE(WAKEN) {
        THREAD(A);
        machine_wake(sim, other, NULL, 0);
        NEXT();
    }
    CASE(RELEASE) {
        THREAD(A);
        machine_release(sim, other);
        NEXT();
    }
    CASE(SPINNING) {
        THREAD(B);
        A.i = other->spinning;
        NEXT();
    }
    CASE(RUNNING) {
        THREAD(B);
        A.i = other->state == THREAD_RUNNING;
        NEXT();
    }
    CASE(APART) {
        THREAD(B);
        A.i = !other->agent && !thread->agent && other->cpu != thread->cpu;
        NEXT();
    }
    CASE(RESTED) {
        A.f = thread->agent ? 0 : thread->cpu->rested;
        NEXT();
    }
    CASE(COOLED) {
        A.f = machine_cooled(sim, B.f);
        NEXT();
    }
    CASE(SLEEPING) {
        THREAD(B);
        A.i = other->state >= THREAD_SLEEPING && other->state <= THREAD_FOLLOWING;
        NEXT();
    }
    CASE(AT) {
        SECONDS(A);
        const enum failure failure = call_at(sim, A.f, ip->b, &C);
        REQUIRE(failure == FAILURE_NOT, failure);
        NEXT();
    }
    CASE(FAIL) {
        sim->message = ip->a;
        FAIL(FAILURE_STATED);
    }
}

void vm_thread(struct sim *sim, struct thread *thread) {
    execute(sim, thread, thread->entry, sim->frames + (size_t)thread->number * sim->program->frame_words);
}

void vm_function(struct sim *sim, uint32_t function, const union word *arguments) {
    const struct program *p = sim->program;
    union word *frame = sim->frames + ((size_t)p->thread_count + function) * p->frame_words;
    for (int64_t k = 0; k < p->functions[function].arguments; k++)
        frame[k] = arguments[k];
    execute(sim, NULL, (uint32_t)p->functions[function].entry, frame);
}
