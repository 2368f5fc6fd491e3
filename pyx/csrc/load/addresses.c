#include "addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>

static const double PORT_TAKEN_S = 60 /* TIME_WAIT */, MOST_CHURN = 30000 /* 1/s, of one generator */;
enum { MOST_ADDRESSES = 65536 };

/* Ports that connections may be made from; Linux's own default where it cannot be read. */
static double ports(void) {
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    int first = 32768, last = 60999;
    if (file) {
        if (fscanf(file, "%d %d", &first, &last) != 2 || last < first)
            first = 32768, last = 60999;
        fclose(file);
    }
    return last - first + 1;
}

int addresses_plan(struct addresses *addresses, const struct load_env *env, size_t connections, double churn,
                   char *message, size_t size) {
    int loopback = ntohl(env->to.sin_addr.s_addr) >> 24 == 127;
    if (churn < 0)
        churn = loopback ? MOST_CHURN : 0;
    double each = ports(), need = (double)connections + churn * PORT_TAKEN_S;
    addresses->count = 1;
    if (loopback) {
        addresses->count = (uint32_t)fmin(fmax(ceil(need / each), 1), MOST_ADDRESSES);
        return 0;
    }
    if (need <= each)
        return 0;
    snprintf(message, size,
             "needs %.0f local ports, one address has %.0f (net.ipv4.ip_local_port_range); widen the range, "
             "or use fewer clients or connection=keep",
             need, each);
    return -EADDRNOTAVAIL;
}

in_addr_t addresses_at(const struct addresses *addresses, uint64_t i) {
    return addresses->count == 1 ? 0 : htonl(INADDR_LOOPBACK + (uint32_t)(i % addresses->count));
}
