#include "sim.h"

#include "cpu.h"
#include "machine.h"
#include "vm.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    PATIENCE = 10000000,  /* jumps and events without time passing, at most */
    BETWEEN_LOOKS = 4096, /* events between two looks at the wall clock */
    OFFSETS = UINT16_MAX, /* fields that code may name beyond the store's end */
    NO_CALL = UINT32_MAX
};

const char *sim_failure(enum failure failure) {
    static const char *const texts[] = {"",
#define FAILURE_TEXT(name, text) text,
                                        FAILURE_LIST(FAILURE_TEXT)
#undef FAILURE_TEXT
    };
    return texts[failure];
}

void sim_fail(struct sim *sim, enum failure failure, uint32_t at) {
    sim->failure = failure;
    sim->failed_at = at;
}

static void level(struct sim *sim, int change) {
    const double now = sim->events.now;
    sim->in_system += (double)sim->level * (now - sim->level_since);
    sim->level_since = now;
    sim->level += change;
}

/* Writes down the sums, with what the running threads have had of their present work. */
static void note(struct sim *sim, struct tally *tally) {
    level(sim, 0);
    tally->time = sim->events.now;
    tally->in_system = sim->in_system;
    tally->events = sim->handled;
    for (int64_t i = 0; i < sim->program->thread_count; i++) {
        const struct thread *thread = sim->threads + i;
        const bool runs = !thread->agent && thread->cpu->current == thread;
        tally->used[i] = thread->used + (runs ? fmax(0, tally->time - thread->cpu->started) : 0);
        tally->slept[i] = thread->slept;
        tally->switched[i] = thread->switched;
    }
    for (int64_t k = 0; k < sim->program->counters; k++)
        tally->counters[k] = sim->counters[k];
}

void sim_begin(struct sim *sim) {
    if (sim->begun)
        return;
    note(sim, &sim->begin);
    sim->begun = true;
    sim->next_mark = sim->asked;
    sim->until = sim->events.now + sim->span;
}

static void finish(struct sim *sim) {
    note(sim, &sim->end);
    sim->finished = true;
}

void sim_close(struct sim *sim) {
    sim_begin(sim);
    if (!sim->finished)
        note(sim, &sim->end);
}

/* As many replies have come as were wanted next: the window begins, or ends, after the event in which they
 * came. */
static void mark(struct sim *sim) {
    sim_begin(sim);
    if (sim->seen >= sim->asked)
        finish(sim);
}

void sim_entered(struct sim *sim) {
    level(sim, 1);
}

static enum failure more_replies(struct sim *sim) {
    const size_t capacity = sim->capacity ? 2 * sim->capacity : 1024;
    if (capacity > PROGRAM_REPLIES)
        return FAILURE_REPLIES;
    struct reply *replies = realloc(sim->replies, capacity * sizeof *replies);
    if (!replies)
        return FAILURE_MEMORY;
    sim->replies = replies;
    sim->capacity = capacity;
    return FAILURE_NOT;
}

enum failure sim_completed(struct sim *sim, int64_t operation, double response, double service) {
    level(sim, -1);
    sim->seen++;
    if (!sim->begun)
        return FAILURE_NOT;
    if (sim->kept == sim->capacity) {
        const enum failure failure = more_replies(sim);
        if (failure != FAILURE_NOT)
            return failure;
    }
    sim->replies[sim->kept++] = (struct reply){response, service, operation};
    return FAILURE_NOT;
}

static int more_calls(struct sim *sim) {
    const uint32_t before = sim->call_capacity, capacity = before ? 2 * before : 64;
    if (before >= PROGRAM_CALLS)
        return -ENOSPC;
    struct call *calls = realloc(sim->calls, capacity * sizeof *calls);
    if (calls)
        sim->calls = calls;
    union word *words = realloc(sim->call_words, ((size_t)capacity * sim->call_width + 1) * sizeof *words);
    if (words)
        sim->call_words = words;
    const uint32_t others = (uint32_t)(sim->program->thread_count + sim->program->cpus);
    if (!calls || !words || events_reserve(&sim->events, capacity + others) < 0)
        return -ENOMEM;
    for (uint32_t k = before; k < capacity; k++)
        calls[k].next_free = k + 1 < capacity ? k + 1 : NO_CALL;
    sim->free_call = before;
    sim->call_capacity = capacity;
    return 0;
}

int64_t sim_new_call(struct sim *sim) {
    if (sim->free_call == NO_CALL) {
        const int rc = more_calls(sim);
        if (rc < 0)
            return rc;
    }
    const uint32_t place = sim->free_call;
    sim->free_call = sim->calls[place].next_free;
    return place;
}

static void call(struct sim *sim, uint32_t place) {
    vm_function(sim, sim->calls[place].function, sim->call_words + (size_t)place * sim->call_width);
    sim->calls[place].next_free = sim->free_call;
    sim->free_call = place;
}

/* A thread's own moment has come: it begins, ends, or its pause is over; or an agent goes on. */
static void thread_event(struct sim *sim, struct thread *thread) {
    if (thread->ending) {
        if (!thread->agent)
            cpu_leave(sim, thread, THREAD_ENDED);
        thread->state = THREAD_ENDED;
    } else if (thread->agent) {
        thread->state = THREAD_RUNNING;
        vm_thread(sim, thread);
    } else {
        thread->state = THREAD_SLEEPING;
        machine_wake(sim, thread, NULL, 0);
    }
}

static void handle(struct sim *sim, event e) {
    const uint32_t number = event_number(e);
    sim->handled++;
    switch (event_kind(e)) {
    case EVENT_CPU:
        cpu_finished(sim, sim->cpus + number);
        vm_thread(sim, sim->cpus[number].current);
        break;
    case EVENT_THREAD:
        thread_event(sim, sim->threads + number);
        break;
    case EVENT_CALL:
        call(sim, number);
        break;
    case EVENT_TICK:
        cpu_tick(sim, sim->cpus + number);
        break;
    }
}

/* Nothing more happens, or not before the end of the window. */
static void run_out(struct sim *sim) {
    if (sim->until < INFINITY) {
        sim->events.now = sim->until;
        finish(sim);
    }
}

/* Where the program waits that the event is about. */
static uint32_t where(const struct sim *sim, event e) {
    const uint32_t number = event_number(e);
    switch (event_kind(e)) {
    case EVENT_CPU:
        return sim->cpus[number].current->entry - 1;
    case EVENT_THREAD:
        return sim->threads[number].entry - (sim->threads[number].state != THREAD_NEW);
    case EVENT_CALL:
        return (uint32_t)sim->program->functions[sim->calls[number].function].entry;
    default:
        return 0;
    }
}

/* One event. False: the run has ended or failed. */
static bool step(struct sim *sim) {
    const event e = events_next(&sim->events);
    const double time = event_time(e);
    if (time > sim->events.now) {
        if (time > sim->until || time == INFINITY) {
            run_out(sim);
            return false;
        }
        sim->events.now = time;
        sim->patience = PATIENCE;
    } else if (e == EVENT_NEVER) {
        run_out(sim);
        return false;
    } else if (--sim->patience < 0) {
        sim_fail(sim, FAILURE_STUCK, where(sim, e));
        return false;
    }
    events_drop(&sim->events, e);
    handle(sim, e);
    if (sim->seen >= sim->next_mark)
        mark(sim);
    return !sim->finished && sim->failure == FAILURE_NOT;
}

static double wall_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int sim_advance(struct sim *sim, double seconds) {
    const double until = wall_clock() + seconds;
    do {
        for (int k = 0; k < BETWEEN_LOOKS; k++)
            if (!step(sim))
                return 0;
        if (events_exhausted(&sim->events)) {
            sim_fail(sim, FAILURE_EVENTS, 0);
            return 0;
        }
    } while (wall_clock() < until);
    return 1;
}

static uint64_t every_cpu(const struct program *p) {
    return p->cpus < 64 ? ((uint64_t)1 << p->cpus) - 1 : UINT64_MAX;
}

/* The k-th of the CPUs in the mask, round and round. */
static uint32_t nth_cpu(uint64_t mask, uint32_t k) {
    for (k %= (uint32_t)__builtin_popcountll(mask); k > 0; k--)
        mask &= mask - 1;
    return (uint32_t)__builtin_ctzll(mask);
}

static void start_threads(struct sim *sim, const int64_t *first) {
    const struct program *p = sim->program;
    uint32_t on_cpus = 0;
    for (uint32_t i = 0; i < p->thread_count; i++) {
        struct thread *thread = sim->threads + i;
        const struct program_thread *made = p->threads + i;
        *thread = (struct thread){.number = i, .entry = (uint32_t)made->entry, .agent = made->agent};
        thread->allowed = made->cpus & every_cpu(p);
        thread->last_ran = -1;
        if (!thread->agent)
            thread->cpu = sim->cpus + nth_cpu(thread->allowed, (uint32_t)first[on_cpus++]);
        sim->bound |= !thread->agent && thread->allowed != every_cpu(p);
        events_push(&sim->events, 0, event_source(EVENT_THREAD, i));
    }
}

static int create_cpus(struct sim *sim) {
    const struct program *p = sim->program;
    uint32_t room = 2;
    for (int64_t i = 0; i < p->thread_count; i++)
        room += p->threads[i].agent ? 0 : 2;
    sim->idle = every_cpu(p);
    for (uint32_t k = 0; k < p->cpus; k++) {
        struct cpu *cpu = sim->cpus + k;
        cpu->number = k;
        cpu->resting = true;
        struct runqueue *const queues[] = {&cpu->queue, &cpu->owing};
        for (int which = 0; which < 2; which++) {
            struct runqueue *queue = queues[which];
            queue->room = queue->entries = calloc(room, sizeof *queue->room);
            queue->capacity = room;
            if (!queue->room)
                return -ENOMEM;
        }
    }
    return 0;
}

static int create_fifos(struct sim *sim) {
    const struct program *p = sim->program;
    const union word *items = p->items;
    for (int64_t i = 0; i < p->fifo_count; i++) {
        struct fifo *fifo = sim->fifos + i;
        fifo->width = (uint32_t)p->fifos[i].width;
        for (int64_t k = 0; k < p->fifos[i].items; k++, items += fifo->width)
            if (fifo_put(fifo, items) < 0)
                return -ENOMEM;
    }
    return 0;
}

static int create_tally(const struct program *p, struct tally *tally) {
    tally->used = calloc((size_t)p->thread_count, sizeof *tally->used);
    tally->slept = calloc((size_t)p->thread_count, sizeof *tally->slept);
    tally->switched = calloc((size_t)p->thread_count, sizeof *tally->switched);
    tally->counters = calloc((size_t)p->counters + 1, sizeof *tally->counters);
    return tally->used && tally->slept && tally->switched && tally->counters ? 0 : -ENOMEM;
}

static int create_arrays(struct sim *sim) {
    const struct program *p = sim->program;
    const size_t frames = (size_t)((p->thread_count + p->function_count) * p->frame_words);
    sim->frames = malloc(frames * sizeof *sim->frames);
    sim->store = calloc((size_t)p->store_words + OFFSETS + 1, sizeof *sim->store);
    sim->fifos = calloc((size_t)p->fifo_count + 1, sizeof *sim->fifos);
    sim->counters = calloc((size_t)p->counters + 1, sizeof *sim->counters);
    sim->threads = calloc((size_t)p->thread_count, sizeof *sim->threads);
    sim->cpus = calloc((size_t)p->cpus, sizeof *sim->cpus);
    sim->order = malloc(((size_t)p->samples + 1) * sizeof *sim->order);
    if (!sim->frames || !sim->store || !sim->fifos || !sim->counters || !sim->threads || !sim->cpus ||
        !sim->order)
        return -ENOMEM;
    memcpy(sim->frames, p->frames, frames * sizeof *sim->frames);
    if (p->store_words)
        memcpy(sim->store, p->store, (size_t)p->store_words * sizeof *sim->store);
    for (uint32_t k = 0; k < p->samples; k++)
        sim->order[k] = k;
    for (int64_t k = 0; k < p->function_count; k++)
        if (p->functions[k].arguments > sim->call_width)
            sim->call_width = (uint32_t)p->functions[k].arguments;
    return 0;
}

int sim_create(struct sim *sim, const struct program *program, const struct draw_table *draws,
               const struct sim_settings *settings) {
    const struct program_scheduler *scheduler = &program->scheduler;
    *sim = (struct sim){
        .program = program, .draws = draws, .prices = settings->prices, .costs = settings->costs};
    sim->next_mark = settings->warm;
    sim->asked =
        settings->replies < INT64_MAX - settings->warm ? settings->warm + settings->replies : INT64_MAX;
    sim->span = settings->span;
    sim->until = INFINITY;
    sim->patience = PATIENCE;
    sim->free_call = NO_CALL;
    sim->lag_limit = fmax(2 * scheduler->base_slice, scheduler->tick);
    random_seed(&sim->random, settings->seed, 0);
    const uint32_t events = (uint32_t)(program->thread_count + program->cpus);
    if (create_arrays(sim) < 0 || create_cpus(sim) < 0 || create_fifos(sim) < 0 ||
        create_tally(program, &sim->begin) < 0 || create_tally(program, &sim->end) < 0 ||
        events_create(&sim->events, events, (uint32_t)program->cpus) < 0)
        return -ENOMEM;
    start_threads(sim, settings->first);
    if (!settings->warm)
        sim_begin(sim);
    return 0;
}

static void destroy_tally(struct tally *tally) {
    free(tally->used);
    free(tally->slept);
    free(tally->switched);
    free(tally->counters);
}

void sim_destroy(struct sim *sim) {
    for (int64_t k = 0; sim->cpus && k < sim->program->cpus; k++) {
        free(sim->cpus[k].queue.room);
        free(sim->cpus[k].owing.room);
    }
    for (int64_t k = 0; sim->fifos && k < sim->program->fifo_count; k++)
        fifo_free(sim->fifos + k);
    destroy_tally(&sim->begin);
    destroy_tally(&sim->end);
    events_destroy(&sim->events);
    free(sim->frames);
    free(sim->store);
    free(sim->fifos);
    free(sim->counters);
    free(sim->threads);
    free(sim->cpus);
    free(sim->order);
    free(sim->calls);
    free(sim->replies);
    free(sim->call_words);
}
