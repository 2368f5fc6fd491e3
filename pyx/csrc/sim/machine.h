/* Who runs where; models/des/machine.py says what each step models. */
#ifndef KNEEPOINT_SIM_MACHINE_H
#define KNEEPOINT_SIM_MACHINE_H

#include "sim.h"

/* Makes a sleeping thread runnable; what it costs the waker, s. The waker may be NULL. */
double machine_wake(struct sim *sim, struct thread *thread, const struct thread *waker, double local);
/* Share of its warmth that a CPU loses by such a rest, s. */
double machine_cooled(const struct sim *sim, double idle);
/* The thread has got a CPU: wakes who follows it. */
void machine_got_cpu(struct sim *sim, struct thread *thread);
void machine_release(struct sim *sim, struct thread *thread);
void machine_pull(struct sim *sim, struct cpu *idle);
void machine_balance(struct sim *sim, struct cpu *busy);

#endif
