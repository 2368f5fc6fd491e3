#include "machine.h"

#include "cpu.h"

#include <math.h>

static bool may(const struct thread *thread, const struct cpu *cpu) {
    return thread->allowed >> cpu->number & 1;
}

/* Enters a thread into a queue's virtual time with its lag, which its own weight must not thin. */
static void place(struct sim *sim, struct thread *thread, const struct cpu *cpu) {
    const uint32_t others = cpu_load(cpu) + cpu->owing.count;
    const double lag = others ? thread->lag * (others + 1) / others : 0;
    thread->vruntime = cpu_average(cpu) - lag;
    thread->deadline = thread->vruntime + sim->program->scheduler.base_slice;
}

/* At how many CPUs a search for an idle one looks: the fewer, the more the machine was in use of late. */
static int64_t reach(struct sim *sim) {
    const struct program_scheduler *scheduler = &sim->program->scheduler;
    const double now = sim->events.now, since = now - sim->looked;
    const int64_t count = sim->program->cpus;
    if (since >= scheduler->tick) {
        double running = 0;
        for (int64_t k = 0; k < count; k++)
            if (sim->cpus[k].current && now > sim->cpus[k].started)
                running += now - sim->cpus[k].started;
        const double used = sim->used + running;
        const double use = (used - sim->accounted) / (since * (double)count);
        const double old = sim->looked > 0 ? pow(0.5, since / scheduler->half_life) : 0;
        sim->use = sim->use * old + (1 - old) * use;
        sim->accounted = used;
        sim->looked = now;
    }
    return (int64_t)((double)count * (1 - fmin(1, scheduler->search * (sim->use * sim->use))));
}

static struct cpu *choose(struct sim *sim, const struct thread *thread) {
    struct cpu *last = thread->cpu;
    const int64_t count = sim->program->cpus;
    if (cpu_free(last) || count == 1)
        return last;
    int64_t left = reach(sim);
    for (int64_t step = 1; step < count && left > 0; step++) {
        struct cpu *cpu = sim->cpus + (last->number + step) % count;
        if (!may(thread, cpu))
            continue;
        if (cpu_free(cpu))
            return cpu;
        left--;
    }
    return last;
}

static void wake_agent(struct sim *sim, struct thread *thread) {
    thread->state = THREAD_RUNNING;
    events_push(&sim->events, 0, event_source(EVENT_THREAD, thread->number));
}

double machine_cooled(const struct sim *sim, double idle) {
    const double cools = sim->prices[COOLS];
    if (idle <= 0)
        return 0;
    return idle < cools ? pow(idle / cools, sim->program->scheduler.fades) : 1;
}

/* How deep a CPU's halt is after such a rest, s. */
static double depth(const struct sim *sim, double idle) {
    const double halts = sim->prices[HALTS], cools = sim->prices[COOLS];
    if (idle <= halts)
        return 0;
    return idle >= cools ? 1 : log(idle / halts) / log(cools / halts);
}

double machine_wake(struct sim *sim, struct thread *thread, const struct thread *waker, double local) {
    if (thread->state != THREAD_SLEEPING) {
        thread->wake_pending = true;
        return 0;
    }
    if (thread->agent) {
        wake_agent(sim, thread);
        return 0;
    }
    const bool paid = waker && !waker->agent;
    if (thread->owing) {
        thread->lag = fmin(0, cpu_average(thread->cpu) - thread->vruntime);
        cpu_forget(thread->cpu, thread);
    }
    const struct cpu *last = thread->cpu;
    struct cpu *cpu = choose(sim, thread);
    place(sim, thread, cpu);
    const double idle = cpu_rise(sim, cpu);
    /* Of another CPU's caches than its last one's it has nothing, however busy that was. */
    const double away = cpu == last ? cpu->rested - thread->rest : sim->events.now - thread->last_ran;
    const double cold = machine_cooled(sim, away);
    if (!cpu_free(cpu)) {
        thread->need = sim->prices[BLOCK] + sim->prices[COLD_THREAD] * cold;
        cpu_enqueue(sim, cpu, thread);
        return paid ? local + (waker->cpu != cpu ? sim->prices[WAKE_REMOTE] : 0) : 0;
    }
    const double halted = depth(sim, idle), chilled = machine_cooled(sim, idle);
    double way = sim->prices[WAKE_SLEEPER] + sim->prices[COOLING_SLEEPER] * halted;
    if (cold > chilled)
        way += sim->prices[COLD_THREAD] * (cold - chilled);
    double latency = sim->prices[WAKE_LATENCY] + sim->prices[COOLING_LATENCY] * halted;
    if (idle > sim->prices[HALTS])
        latency += sim->prices[HALTED_LATENCY];
    cpu->current = thread;
    sim->idle &= ~((uint64_t)1 << cpu->number);
    thread->cpu = cpu;
    thread->state = THREAD_RUNNING;
    thread->need = way;
    cpu->started = sim->events.now + latency;
    events_end(&sim->events, cpu->number, latency + way);
    if (thread->followers)
        machine_got_cpu(sim, thread);
    return paid ? sim->prices[WAKE_WAKER] + sim->prices[COOLING_WAKER] * halted : 0;
}

void machine_got_cpu(struct sim *sim, struct thread *thread) {
    struct thread *follower = thread->followers;
    thread->followers = NULL;
    while (follower) {
        struct thread *next = follower->next_follower;
        follower->state = THREAD_SLEEPING;
        machine_wake(sim, follower, thread, 0);
        follower = next;
    }
}

void machine_release(struct sim *sim, struct thread *thread) {
    if (!thread->spinning)
        return;
    thread->spinning = false;
    if (thread->agent) {
        wake_agent(sim, thread);
    } else if (thread->state == THREAD_RUNNING) {
        cpu_charge(sim, thread->cpu);
        thread->need = 0;
        cpu_resume(sim, thread->cpu);
    } else {
        thread->need = 0;
    }
}

/* Of a CPU's queue, who has waited longest and may run on the other; NULL if nobody may. */
static struct thread *longest(const struct cpu *cpu, const struct cpu *other) {
    struct thread *found = NULL;
    for (uint32_t k = 0; k < cpu->queue.count; k++) {
        struct thread *thread = cpu->queue.entries[k].thread;
        if (!may(thread, other))
            continue;
        if (!found || thread->last_ran < found->last_ran ||
            (thread->last_ran == found->last_ran && thread->turn < found->turn))
            found = thread;
    }
    return found;
}

/* Moves a queued thread to another CPU's queue. What has run since the last tick counts, or a thread that is
 * moved often falls ever further behind. */
static void move(struct sim *sim, struct thread *thread, struct cpu *cpu) {
    struct cpu *origin = thread->cpu;
    const double limit = sim->lag_limit;
    cpu_charge(sim, origin);
    cpu_charge(sim, cpu);
    thread->lag = fmax(-limit, fmin(limit, cpu_average(origin) - thread->vruntime));
    cpu_take(sim, origin, thread);
    place(sim, thread, cpu);
    cpu_append(sim, cpu, thread);
}

static uint32_t waiting_for(const struct sim *sim, const struct cpu *cpu, const struct cpu *other) {
    if (!sim->bound)
        return cpu->queue.count;
    uint32_t found = 0;
    for (uint32_t k = 0; k < cpu->queue.count; k++)
        found += may(cpu->queue.entries[k].thread, other);
    return found;
}

static bool hot(const struct sim *sim, const struct thread *thread) {
    return sim->events.now - thread->last_ran < sim->program->scheduler.hot;
}

void machine_pull(struct sim *sim, struct cpu *idle) {
    if (!sim->queued)
        return;
    const struct cpu *busiest = NULL;
    uint32_t most = 0;
    for (int64_t k = 0; k < sim->program->cpus; k++) {
        const uint32_t waiting = waiting_for(sim, sim->cpus + k, idle);
        if (waiting > most) {
            most = waiting;
            busiest = sim->cpus + k;
        }
    }
    if (!busiest)
        return;
    struct thread *thread = longest(busiest, idle);
    if (!hot(sim, thread))
        move(sim, thread, idle);
}

static bool before(const struct cpu *a, const struct cpu *b) {
    return cpu_load(a) != cpu_load(b) ? cpu_load(a) < cpu_load(b) : a->balanced < b->balanced;
}

/* The CPUs, the least loaded first; of equals, who gave or took longest ago. */
static void by_load(struct sim *sim, struct cpu **order) {
    for (int64_t k = 0; k < sim->program->cpus; k++) {
        int64_t at = k;
        for (; at > 0 && before(sim->cpus + k, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = sim->cpus + k;
    }
}

void machine_balance(struct sim *sim, struct cpu *busy) {
    struct cpu *order[PROGRAM_CPUS];
    const double now = sim->events.now;
    by_load(sim, order);
    for (int64_t k = 0; k < sim->program->cpus && busy->queue.count; k++) {
        struct cpu *other = order[k];
        const int64_t gap = (int64_t)cpu_load(busy) - cpu_load(other);
        const bool due = now - busy->balanced >= sim->program->scheduler.balance;
        if (other == busy || !(cpu_load(other) == 0 || gap >= 2 || (gap == 1 && due)))
            continue;
        struct thread *thread = longest(busy, other);
        if (!thread || (hot(sim, thread) && now - busy->balanced < sim->program->scheduler.stays))
            continue;
        busy->balanced = other->balanced = now;
        move(sim, thread, other);
        if (!other->current)
            cpu_pick(sim, other);
        else if (!other->ticking)
            cpu_tick_on(sim, other);
    }
}
