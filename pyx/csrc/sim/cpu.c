#include "cpu.h"

#include "machine.h"

/* Up to so many virtual times are added up each time. Of more a sum is kept, which is added up anew after so
 * many changes, since each of them rounds. */
enum { CPU_FEW = 4, CPU_CHANGES = 256 };

static double add_up(const struct cpu *cpu, double base) {
    double sum = 0;
    for (uint32_t k = 0; k < cpu->queue.count; k++)
        sum += cpu->queue.entries[k].thread->vruntime - base;
    for (uint32_t k = 0; k < cpu->owing.count; k++)
        sum += cpu->owing.entries[k].thread->vruntime - base;
    return sum;
}

static void changed(struct cpu *cpu, double change) {
    if (cpu->queue.count + cpu->owing.count <= CPU_FEW) {
        cpu->changes = CPU_CHANGES;
    } else if (++cpu->changes < CPU_CHANGES) {
        cpu->sum += change;
    } else {
        cpu->changes = 0;
        cpu->base = cpu->owing.count ? cpu->owing.entries[0].key : cpu->queue.entries[0].thread->vruntime;
        cpu->sum = add_up(cpu, cpu->base);
    }
}

void cpu_append(struct sim *sim, struct cpu *cpu, struct thread *thread) {
    thread->turn = sim->turns++;
    thread->state = THREAD_QUEUED;
    thread->cpu = cpu;
    sim->queued++;
    sim->idle &= ~((uint64_t)1 << cpu->number);
    runqueue_insert(&cpu->queue, thread->deadline, thread);
    changed(cpu, thread->vruntime - cpu->base);
}

void cpu_take(struct sim *sim, struct cpu *cpu, struct thread *thread) {
    sim->queued--;
    runqueue_remove(&cpu->queue, thread);
    changed(cpu, cpu->base - thread->vruntime);
    if (cpu_free(cpu))
        sim->idle |= (uint64_t)1 << cpu->number;
}

static void owe(struct cpu *cpu, struct thread *thread) {
    thread->owing = true;
    runqueue_insert(&cpu->owing, thread->vruntime, thread);
    changed(cpu, thread->vruntime - cpu->base);
}

void cpu_forget(struct cpu *cpu, struct thread *thread) {
    thread->owing = false;
    runqueue_remove(&cpu->owing, thread);
    changed(cpu, cpu->base - thread->vruntime);
}

double cpu_average(const struct cpu *cpu) {
    const uint32_t others = cpu->queue.count + cpu->owing.count;
    if (!others)
        return cpu->current ? cpu->current->vruntime : cpu->virtual;
    const double base = others <= CPU_FEW ? 0 : cpu->base;
    double total = others <= CPU_FEW ? add_up(cpu, 0) : cpu->sum;
    if (cpu->current)
        total += cpu->current->vruntime - base;
    return base + total / (others + (cpu->current != NULL));
}

void cpu_charge(struct sim *sim, struct cpu *cpu) {
    struct thread *thread = cpu->current;
    const double ran = sim->events.now - cpu->started;
    if (!thread || ran <= 0)
        return;
    thread->used += ran;
    sim->used += ran;
    thread->vruntime += ran;
    thread->need -= ran;
    cpu->started = sim->events.now;
}

void cpu_resume(struct sim *sim, struct cpu *cpu) {
    const double need = cpu->current->need;
    cpu->started = sim->events.now;
    if (need == INFINITY)
        events_endless(&sim->events, cpu->number);
    else
        events_end(&sim->events, cpu->number, need > 0 ? need : 0);
}

void cpu_finished(struct sim *sim, struct cpu *cpu) {
    struct thread *thread = cpu->current;
    const double ran = sim->events.now - cpu->started;
    cpu->started = sim->events.now;
    thread->used += ran;
    sim->used += ran;
    thread->vruntime += ran;
    thread->need = 0;
}

/* A thread goes to sleep: what it is owed is kept, what it owes keeps it in the average. */
static void part(struct sim *sim, struct cpu *cpu, struct thread *thread, enum thread_state state) {
    const uint32_t others = cpu_load(cpu) + cpu->owing.count;
    const double limit = sim->lag_limit;
    const double average =
        others ? (cpu_average(cpu) * others + thread->vruntime) / (others + 1) : thread->vruntime;
    thread->lag = fmax(-limit, fmin(limit, average - thread->vruntime));
    thread->state = state;
    thread->need = 0;
    thread->last_ran = sim->events.now;
    thread->rest = cpu->rested;
    cpu->virtual = average;
    if (thread->lag < 0 && others)
        owe(cpu, thread);
}

void cpu_leave(struct sim *sim, struct thread *thread, enum thread_state state) {
    struct cpu *cpu = thread->cpu;
    if (thread->state != THREAD_RUNNING) {
        cpu_take(sim, cpu, thread);
        part(sim, cpu, thread, state);
        return;
    }
    cpu_charge(sim, cpu);
    cpu->current = NULL;
    events_endless(&sim->events, cpu->number);
    part(sim, cpu, thread, state);
    if (!cpu->queue.count) {
        sim->idle |= (uint64_t)1 << cpu->number;
        machine_pull(sim, cpu);
    }
    cpu_pick(sim, cpu);
    if (!cpu->current) {
        cpu->idle_since = sim->events.now;
        cpu->resting = true;
    }
}

double cpu_rise(struct sim *sim, struct cpu *cpu) {
    if (!cpu->resting)
        return 0;
    cpu->resting = false;
    const double idle = sim->events.now - cpu->idle_since;
    cpu->rested += idle;
    return idle;
}

/* Lets go of sleepers that the others have caught up with; of all of them when nobody else is left. */
static void settle(struct cpu *cpu, double average) {
    const bool alone = cpu_free(cpu);
    while (cpu->owing.count && (alone || cpu->owing.entries[0].key <= average + CPU_ROUNDING)) {
        struct thread *thread = cpu->owing.entries[0].thread;
        cpu_forget(cpu, thread);
        thread->lag = 0;
    }
}

/* Of the queue, the eligible thread with the earliest deadline; of equals, who came first. */
static struct thread *best(const struct cpu *cpu, double average) {
    const struct runqueue *queue = &cpu->queue;
    struct thread *found = NULL;
    for (uint32_t k = 0; k < queue->count; k++) {
        struct thread *thread = queue->entries[k].thread;
        if (found && thread->deadline > found->deadline + CPU_ROUNDING)
            break;
        if (thread->vruntime <= average + CPU_ROUNDING && (!found || thread->turn < found->turn))
            found = thread;
    }
    return found ? found : best(cpu, INFINITY);
}

static void dispatch(struct sim *sim, struct cpu *cpu, struct thread *thread) {
    cpu_rise(sim, cpu);
    cpu->current = thread;
    sim->idle &= ~((uint64_t)1 << cpu->number);
    thread->cpu = cpu;
    thread->state = THREAD_RUNNING;
    thread->need += sim->prices[SWITCH];
    if (thread->vruntime >= thread->deadline)
        thread->deadline = thread->vruntime + sim->program->scheduler.base_slice;
    cpu_resume(sim, cpu);
    if (thread->followers)
        machine_got_cpu(sim, thread);
}

void cpu_pick(struct sim *sim, struct cpu *cpu) {
    if (cpu->owing.count) {
        cpu->virtual = cpu_average(cpu);
        settle(cpu, cpu->virtual);
    }
    if (!cpu->queue.count)
        return;
    struct thread *chosen = cpu->queue.count > 1 ? best(cpu, cpu_average(cpu)) : cpu->queue.entries[0].thread;
    cpu_take(sim, cpu, chosen);
    dispatch(sim, cpu, chosen);
}

/* Who should run instead of the current thread, if that has had more than its share or has used up its slice.
 */
static struct thread *successor(struct sim *sim, struct cpu *cpu) {
    struct thread *thread = cpu->current;
    double average = cpu_average(cpu);
    if (cpu->owing.count) {
        settle(cpu, average);
        average = cpu_average(cpu);
    }
    const bool beyond = thread->vruntime > average + CPU_ROUNDING;
    if (thread->vruntime >= thread->deadline)
        thread->deadline = thread->vruntime + sim->program->scheduler.base_slice;
    else if (!beyond)
        return NULL;
    struct thread *next = best(cpu, average);
    return beyond || next->deadline <= thread->deadline + CPU_ROUNDING ? next : NULL;
}

/* Puts the current thread back into the queue in favour of another. */
static void preempt(struct sim *sim, struct cpu *cpu, struct thread *next) {
    struct thread *thread = cpu->current;
    thread->switched++;
    thread->last_ran = sim->events.now;
    cpu->current = NULL;
    events_endless(&sim->events, cpu->number);
    cpu_take(sim, cpu, next);
    cpu_append(sim, cpu, thread);
    dispatch(sim, cpu, next);
}

void cpu_enqueue(struct sim *sim, struct cpu *cpu, struct thread *thread) {
    cpu_append(sim, cpu, thread);
    if (!cpu->ticking)
        cpu_tick_on(sim, cpu);
    if (!cpu->current)
        return;
    cpu_charge(sim, cpu);
    if (successor(sim, cpu) == thread)
        preempt(sim, cpu, thread);
}

void cpu_tick_on(struct sim *sim, struct cpu *cpu) {
    const double tick = sim->program->scheduler.tick;
    cpu->ticking = true;
    events_push(&sim->events, tick - fmod(sim->events.now, tick), event_source(EVENT_TICK, cpu->number));
}

void cpu_tick(struct sim *sim, struct cpu *cpu) {
    if (!cpu->queue.count) {
        cpu->ticking = false;
        return;
    }
    events_push(&sim->events, sim->program->scheduler.tick, event_source(EVENT_TICK, cpu->number));
    machine_balance(sim, cpu);
    if (!cpu->queue.count || !cpu->current)
        return;
    cpu_charge(sim, cpu);
    struct thread *next = successor(sim, cpu);
    if (next)
        preempt(sim, cpu, next);
}
