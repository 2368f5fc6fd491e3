/* CPU lists written as "0,2-3", and binding to them. */
#ifndef KNEEPOINT_PLACEMENT_H
#define KNEEPOINT_PLACEMENT_H

/* Binds the calling thread, and threads it makes later, to the listed CPUs. An empty list changes nothing.
 * -EINVAL: not a list, or none of its CPUs exists here. */
int placement_bind(const char *cpus);

#endif
