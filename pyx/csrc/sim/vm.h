/* Runs the code of a thread until it waits, or that of a function until it returns. */
#ifndef KNEEPOINT_SIM_VM_H
#define KNEEPOINT_SIM_VM_H

#include "sim.h"

/* From the thread's entry on, which is where it goes on next time. */
void vm_thread(struct sim *sim, struct thread *thread);
void vm_function(struct sim *sim, uint32_t function, const union word *arguments);

#endif
