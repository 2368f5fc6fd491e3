/* The local addresses that a load connects from. One address has as many ports as
 * net.ipv4.ip_local_port_range says, and a port stays taken for a minute after its connection has ended; on
 * loopback there are 16 million addresses. */
#ifndef KNEEPOINT_ADDRESSES_H
#define KNEEPOINT_ADDRESSES_H

#include "../core/load.h"

struct addresses {
    uint32_t count; /* 1: the system chooses the address */
};

/* Plans enough addresses for so many connections at a time, and `churn` new ones a second (negative: as many
 * as the server can take). -EADDRNOTAVAIL, with one line in message, when the destination is not on loopback
 * and one address is known not to suffice. */
int addresses_plan(struct addresses *addresses, const struct load_env *env, size_t connections, double churn,
                   char *message, size_t size);

/* The address of the i-th connection in network order; 0: any. */
in_addr_t addresses_at(const struct addresses *addresses, uint64_t i);

#endif
