/* One CPU with its run queue; models/des/cpu.py says what each step models. */
#ifndef KNEEPOINT_SIM_CPU_H
#define KNEEPOINT_SIM_CPU_H

#include "sim.h"

/* Virtual times are sums of many small ones: two that differ by less than this are equal, s. */
#define CPU_ROUNDING 1e-12

/* Threads that run or could. */
static inline uint32_t cpu_load(const struct cpu *cpu) {
    return cpu->queue.count + (cpu->current != NULL);
}

static inline bool cpu_free(const struct cpu *cpu) {
    return !cpu->current && !cpu->queue.count;
}

/* Adds to the queue or takes from it, and to and from those who owe. */
void cpu_append(struct sim *sim, struct cpu *cpu, struct thread *thread);
void cpu_take(struct sim *sim, struct cpu *cpu, struct thread *thread);
void cpu_forget(struct cpu *cpu, struct thread *thread);

/* Mean virtual time of the threads that count here; of the last one when there is none. */
double cpu_average(const struct cpu *cpu);

/* Ends the CPU's rest, if it had one, and gives how long that was, s. */
double cpu_rise(struct sim *sim, struct cpu *cpu);

void cpu_resume(struct sim *sim, struct cpu *cpu);
/* The current thread has had what it needed. */
void cpu_finished(struct sim *sim, struct cpu *cpu);
void cpu_charge(struct sim *sim, struct cpu *cpu);
/* The thread stops being able to run: to sleep in some way, or because its program has ended. */
void cpu_leave(struct sim *sim, struct thread *thread, enum thread_state state);
void cpu_pick(struct sim *sim, struct cpu *cpu);
void cpu_enqueue(struct sim *sim, struct cpu *cpu, struct thread *thread);
void cpu_tick_on(struct sim *sim, struct cpu *cpu);
void cpu_tick(struct sim *sim, struct cpu *cpu);

#endif
