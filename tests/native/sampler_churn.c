/* A process samples itself while its threads and children come and go.
 *
 *     sampler_churn [ROUNDS]
 *
 * Each round starts and ends a sampler, some threads and some children. Exit status 1, and one line, at the
 * first sum that falls or row that is missing, or that the end of a thread hides. */
#define _GNU_SOURCE
#include "core/proctree.h"
#include "core/sampler.h"
#include "core/tasks.h"

#include <pthread.h>
#include <stdatomic.h>
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

static _Atomic int stopping;

static void *end_at_once(void *argument) {
    return argument;
}

static void *keep_starting(void *argument) {
    pthread_t thread;
    while (!atomic_load(&stopping))
        if (!pthread_create(&thread, NULL, end_at_once, NULL))
            pthread_join(thread, NULL);
    return argument;
}

/* The sums of threads that end while they are read: how many are unknown. */
static int count_unknown(int rounds) {
    struct tasks tasks = {0};
    pthread_t starter;
    int unknown = 0;
    pthread_create(&starter, NULL, keep_starting, NULL);
    for (int i = 0; i < rounds; i++) {
        int64_t sums[TASKS_VALUES];
        tasks_begin(&tasks);
        int rc = tasks_read(&tasks, getpid());
        tasks_end(&tasks, sums);
        for (int k = 0; k < TASKS_VALUES; k++)
            unknown += rc || sums[k] < 0;
    }
    atomic_store(&stopping, 1);
    pthread_join(starter, NULL);
    tasks_free(&tasks);
    return unknown;
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 50;
    size_t all = 0, found;
    int unknown = count_unknown(40 * rounds);
    if (unknown) {
        printf("%d sums are unknown\n", unknown);
        return 1;
    }
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
