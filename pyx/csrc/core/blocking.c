#include "blocking.h"

#include "clock.h"

enum { SLEEP_NS = 5000 };

void blocking_serve(struct conn *conn, const _Atomic int *stopping, struct counter_block *me) {
    int rc = 0;
    while (rc >= 0 && !atomic_load(stopping)) {
        int64_t start = clock_now();
        rc = conn_fill(conn, 0);
        int64_t now = clock_now();
        if (now - start > SLEEP_NS) {
            COUNT(me, sleeps, 1);
            COUNT(me, wait_ns, now - start);
        }
        counters_publish(me, now);
        if (rc >= 0)
            rc = conn_serve(conn, 0, me);
    }
}
