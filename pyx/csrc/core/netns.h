/* Two network namespaces of our own with a veth pair between them: packets pass through two complete stacks,
 * but over no wire. They have no names: when the last socket in them is closed, they are gone. */
#ifndef KNEEPOINT_NETNS_H
#define KNEEPOINT_NETNS_H

#include <stddef.h>

#define NETNS_NEAR "10.0.0.1"
#define NETNS_FAR "10.0.0.2"

/* Makes two descriptors; near and far are the namespaces, for setns. 0 or a negated errno. */
typedef int netns_maker(int near, int far, int fd[2]);

/* Gives the descriptors that `make` makes in a process of its own, as the caller's namespace must stay what
 * it is. 0, or a negated errno with a line for the user in message: what failed, and what would allow it. */
int netns_make(netns_maker *make, int fd[2], char *message, size_t room);

#endif
