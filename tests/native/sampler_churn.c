/* A process samples itself while its threads and children come and go.
 *
 *     sampler_churn [ROUNDS]
 *
 * Each round starts and ends a sampler, some threads and some children. Exit status 1, and one line, at the
 * first sum that falls or row that is missing. */
#define _GNU_SOURCE
#include "core/proctree.h"
#include "core/sampler.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8, CHILDREN = 8, INTERVAL = 200000 /* ns */ };

static void *pass(void *argument) {
    usleep(1000);
    return argument;
}

static int churn(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, pass, NULL))
            return 1;
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (!child)
            _exit(0);
    }
    int failed = proctree_cpu(getpid()) < 0;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while (wait(NULL) > 0)
        ;
    return failed;
}

static int check(const struct sampler_row *rows, size_t count) {
    const int sums[] = {SAMPLER_time, SAMPLER_cpu, SAMPLER_wait, SAMPLER_switches, SAMPLER_preemptions};
    for (size_t k = 0; k < sizeof(sums) / sizeof(*sums); k++) {
        int64_t last = 0;
        for (size_t i = 0; i < count; i++) {
            int64_t value = rows[i].value[sums[k]];
            if (value >= 0 && value < last)
                return 1;
            last = value >= 0 ? value : last;
        }
    }
    return count < 2 || rows[0].value[SAMPLER_threads] < 1 || rows[count - 1].value[SAMPLER_processes] != 1;
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 50;
    size_t all = 0, found;
    for (int i = 0; i < rounds; i++) {
        struct sampler *sampler;
        const struct sampler_row *rows;
        if (sampler_start(getpid(), INTERVAL, &sampler) || churn()) {
            printf("round %d: cannot be started, or not be read\n", i);
            return 1;
        }
        sampler_stop(sampler, &rows, &found);
        if (check(rows, found)) {
            printf("round %d: a sum fell, or a row is missing\n", i);
            return 1;
        }
        all += found;
        sampler_destroy(sampler);
    }
    printf("%zu rows\n", all);
    return 0;
}
