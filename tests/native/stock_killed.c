/* The stock service in processes that are killed: at every instruction of an order, around every system call
 * of a whole visit with its write-back, and at random while all of them order the same stocks. Nothing may be
 * lost, made up, done twice, or held for ever.
 *
 *     stock_killed FOLDER LOCK
 *
 * FOLDER is an empty folder to write in. Links with all of pyx/csrc but main.c. Exit status 1, and one line
 * that says what, at the first failure. */
#define _GNU_SOURCE
#include "core/registry.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WORKERS = 4,
    STOCKS = 2,
    DIGIT_BITS = 15,
    MIDDLE = 1 << (DIGIT_BITS - 1),
    FARTHEST = MIDDLE - 2,
    KILLS = 80,
    STUCK_AFTER = 30, /* s */
};

static char path[4096];

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("stock_killed: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    _Exit(1);
}

static void *share(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("out of memory");
    return memory;
}

struct subject {
    const struct service_ops *ops;
    struct config *config;
    struct counters *counters;
    struct counter_block *me;
    void *service;
};

static void write_table(const char *text) {
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file))
        fail("%s: cannot be written", path);
}

static void begin(struct subject *subject, const char *lock) {
    const char *const settings[][2] = {{"table", path}, {"lock", lock}, {"processes", "yes"}};
    char message[512] = "";
    *subject = (struct subject){.ops = registry_service("stock"), .counters = share(counters_size())};
    if (config_create(&subject->config))
        fail("out of memory");
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        config_set(subject->config, settings[i][0], settings[i][1]);
    config_fill(subject->config, subject->ops->knobs);
    if (subject->ops->create(subject->config, WORKERS + 1, message, sizeof(message), &subject->service))
        fail("create: %s", message);
    subject->me = counters_claim(subject->counters, ROLE_WORKER);
}

static void end(struct subject *subject) {
    if (subject->ops->save(subject->service))
        fail("the table cannot be saved");
    subject->ops->destroy(subject->service);
    config_destroy(subject->config);
    munmap(subject->counters, counters_size());
}

/* One session, as a connection has it. */
struct visit {
    struct subject *subject;
    void *session;
    struct buffer out;
};

static void visit_open(struct visit *visit, struct subject *subject) {
    *visit = (struct visit){.subject = subject, .session = calloc(1, subject->ops->session_size)};
    buffer_init(&visit->out, 1 << 20);
    if (!visit->session || subject->ops->open(subject->service, visit->session))
        fail("a session cannot be opened");
}

static void visit_ask(struct visit *visit, const char *line) {
    const struct subject *subject = visit->subject;
    size_t used;
    if (subject->ops->parse(subject->service, visit->session, line, strlen(line), &used, &visit->out) != 1)
        fail("%s: not understood", line);
}

static void visit_run(struct visit *visit) {
    const struct subject *subject = visit->subject;
    subject->ops->run(subject->service, visit->session, 0, UINT32_MAX, subject->me);
}

/* The reply, to be read before the next call. */
static const char *visit_answer(struct visit *visit) {
    const struct subject *subject = visit->subject;
    buffer_consume(&visit->out, buffer_length(&visit->out));
    visit_run(visit);
    if (subject->ops->reply(subject->service, visit->session, &visit->out) || buffer_put(&visit->out, "", 1))
        fail("no reply");
    return buffer_data(&visit->out);
}

static void visit_close(struct visit *visit) {
    visit->subject->ops->close(visit->subject->service, visit->session);
    free(visit->session);
    buffer_free(&visit->out);
}

static void read_rows(const char *text, int64_t left[STOCKS], const char *what) {
    for (int i = 0; i < STOCKS; i++) {
        int64_t id;
        if (sscanf(text, "%" SCNd64 " %" SCNd64 " 1\n", &id, &left[i]) != 2 || id != i + 1)
            fail("%s is \"%s\"", what, text);
        text = strchr(text, '\n') + 1;
    }
}

/* What the service shows; it hangs, and is ended by the alarm, where a lock has stayed with the dead. */
static void look(struct subject *subject, int64_t left[STOCKS]) {
    struct visit visit;
    visit_open(&visit, subject);
    visit_ask(&visit, "show\n");
    read_rows(visit_answer(&visit), left, "a show");
    visit_close(&visit);
}

static void read_file(int64_t left[STOCKS]) {
    char text[1000] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fread(text, 1, sizeof(text) - 1, file))
        fail("%s cannot be read", path);
    fclose(file);
    read_rows(text, left, "the file");
}

/* Orders nothing, so that the linker has no work left that would be stepped through. */
static void warm_up(struct subject *subject) {
    struct visit visit;
    visit_open(&visit, subject);
    visit_ask(&visit, "sell 1 0\n");
    visit_answer(&visit);
    visit_close(&visit);
}

/* Orders once, stopping itself before and after the part whose instructions are counted. */
static void be_stepped(struct subject *subject, int whole_visit) {
    struct visit visit;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(3);
    if (whole_visit)
        raise(SIGSTOP);
    visit_open(&visit, subject);
    visit_ask(&visit, "sell 1 1\n");
    if (!whole_visit)
        raise(SIGSTOP);
    visit_run(&visit);
    if (!whole_visit)
        raise(SIGSTOP);
    visit_close(&visit);
    if (whole_visit)
        raise(SIGSTOP);
    _exit(0);
}

/* Lets a process make so many steps, or all, and kills it: instructions of its order, or halves of system
 * calls of its whole visit. Those it made; -1: the kernel lets nobody trace. */
static long step_and_kill(struct subject *subject, int whole_visit, long most) {
    long steps = 0;
    int status;
    pid_t pid = fork();
    if (!pid)
        be_stepped(subject, whole_visit);
    if (waitpid(pid, &status, 0) != pid)
        fail("no process to step");
    if (WIFEXITED(status))
        return -1;
    while (steps < most) {
        if (ptrace(whole_visit ? PTRACE_SYSCALL : PTRACE_SINGLESTEP, pid, NULL, NULL) ||
            waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
            fail("a stepped process ended by itself");
        if (WSTOPSIG(status) == SIGSTOP)
            break;
        steps++;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    subject->ops->lost(subject->service, pid);
    return steps;
}

/* Kills it after so many steps: the order was done or not, the file is the old one or the new one, and
 * everything goes on. Adds what was sold to *sold. */
static void try_killing(struct subject *subject, int whole_visit, long steps, int64_t *sold) {
    int64_t shown[STOCKS], kept[STOCKS];
    alarm(STUCK_AFTER);
    step_and_kill(subject, whole_visit, steps);
    read_file(kept);
    look(subject, shown);
    if (shown[0] != 1000 + *sold && shown[0] != 1000 + *sold + 1)
        fail("killed after %ld steps: %" PRId64 " left, sold %" PRId64 " before", steps, shown[0], *sold);
    *sold = shown[0] - 1000;
    if (kept[0] != shown[0])
        fail("killed after %ld steps: the last client left, and the file says %" PRId64 " for %" PRId64,
             steps, kept[0], shown[0]);
    if (shown[1] != 1000 || kept[1] != 1000)
        fail("killed after %ld steps: another stock has changed", steps);
}

static long step_all(const char *lock) {
    struct subject subject;
    int64_t sold = 0, kept[STOCKS];
    long tried = 0;
    write_table("1 1000 1\n2 1000 1\n");
    begin(&subject, lock);
    warm_up(&subject);
    for (int whole_visit = 0; whole_visit < 2; whole_visit++) {
        alarm(STUCK_AFTER);
        long all = step_and_kill(&subject, whole_visit, 100000000);
        if (all < 0)
            return 0;
        sold++;
        for (long steps = 0; steps <= all; steps++, tried++)
            try_killing(&subject, whole_visit, steps, &sold);
    }
    end(&subject);
    read_file(kept);
    char partial[5000];
    snprintf(partial, sizeof(partial), "%s.partial", path);
    if (kept[0] != 1000 + sold || !access(partial, F_OK))
        fail("at the end the file says %" PRId64 " for %" PRId64, kept[0], 1000 + sold);
    return tried;
}

/* A worker orders a power of its own, so that a stock's balance has a digit for each worker, which says
 * exactly how many orders of that worker count. */
struct worker {
    pid_t pid;
    _Atomic int64_t net[STOCKS]; /* sold less bought, as it was told */
    _Atomic int pending;         /* stock + 1 of the order under way, negative for a buy; 0: none */
    _Atomic long orders;
};

struct crew {
    _Atomic int stopping;
    struct worker worker[WORKERS];
};

static void order(struct visit *visit, struct worker *self, int number, struct random *random) {
    int stock = (int)random_below(random, STOCKS);
    int64_t net = atomic_load(&self->net[stock]);
    int sign = net >= FARTHEST ? -1 : net <= -FARTHEST ? 1 : random_below(random, 2) ? 1 : -1;
    char line[100];
    snprintf(line, sizeof(line), "%s %d %" PRId64 "\n", sign > 0 ? "sell" : "buy", stock + 1,
             INT64_C(1) << DIGIT_BITS * number);
    visit_ask(visit, line);
    atomic_store(&self->pending, sign * (stock + 1));
    const char *reply = visit_answer(visit);
    if (strcmp(reply, sign > 0 ? "[sell] success\n" : "[buy] success\n"))
        fail("%s is answered by %s", line, reply);
    atomic_store(&self->net[stock], net + sign);
    atomic_store(&self->pending, 0);
    atomic_fetch_add(&self->orders, 1);
}

static void work(struct subject *subject, struct crew *crew, int number, uint64_t seed) {
    struct random random;
    random_seed(&random, seed, 7);
    alarm(STUCK_AFTER);
    while (!atomic_load(&crew->stopping)) {
        struct visit visit;
        visit_open(&visit, subject);
        for (uint64_t left = random_below(&random, 5000); left && !atomic_load(&crew->stopping); left--)
            order(&visit, &crew->worker[number], number, &random);
        visit_close(&visit);
    }
    _exit(0);
}

/* How many orders of that worker count in a balance. */
static int64_t digit_of(int64_t left, int number) {
    return (left >> DIGIT_BITS * number & ((1 << DIGIT_BITS) - 1)) - MIDDLE;
}

/* The order that a killed worker had under way is done or not; it may even have been told so. */
static void settle(struct worker *worker, int number, const int64_t left[STOCKS]) {
    int pending = atomic_load(&worker->pending), stock = abs(pending) - 1, sign = pending > 0 ? 1 : -1;
    for (int i = 0; i < STOCKS; i++) {
        int64_t found = digit_of(left[i], number), told = atomic_load(&worker->net[i]);
        if (found != told && !(pending && i == stock && found == told + sign))
            fail("stock %d: %" PRId64 " orders of worker %d count, of %" PRId64, i + 1, found, number, told);
        atomic_store(&worker->net[i], found);
    }
    atomic_store(&worker->pending, 0);
}

static void hire(struct subject *subject, struct crew *crew, int number, uint64_t seed) {
    pid_t pid = fork();
    if (pid < 0)
        fail("no process");
    if (!pid)
        work(subject, crew, number, seed);
    crew->worker[number].pid = pid;
}

static long kill_at_random(const char *lock) {
    struct subject subject;
    struct crew *crew = share(sizeof(*crew));
    struct random random;
    char table[200];
    int64_t left[STOCKS], kept[STOCKS], start = 0;
    int status;
    for (int i = 0; i < WORKERS; i++)
        start |= (int64_t)MIDDLE << DIGIT_BITS * i;
    snprintf(table, sizeof(table), "1 %" PRId64 " 1\n2 %" PRId64 " 1\n", start, start);
    write_table(table);
    begin(&subject, lock);
    random_seed(&random, 1, 1);
    for (int i = 0; i < WORKERS; i++)
        hire(&subject, crew, i, (uint64_t)i);
    for (int kills = 0; kills < KILLS; kills++) {
        int number = (int)random_below(&random, WORKERS);
        alarm(STUCK_AFTER);
        usleep(100 + (useconds_t)random_below(&random, 2000));
        pid_t pid = crew->worker[number].pid;
        kill(pid, SIGKILL);
        if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail("worker %d ended by itself", number);
        subject.ops->lost(subject.service, pid);
        look(&subject, left);
        settle(&crew->worker[number], number, left);
        hire(&subject, crew, number, (uint64_t)(WORKERS + kills));
    }
    atomic_store(&crew->stopping, 1);
    for (int i = 0; i < WORKERS; i++)
        if (waitpid(crew->worker[i].pid, &status, 0) < 0 || status)
            fail("worker %d ended with status %d", i, status);
    look(&subject, left);
    read_file(kept);
    long orders = 0;
    for (int i = 0; i < WORKERS; i++) {
        settle(&crew->worker[i], i, left);
        orders += atomic_load(&crew->worker[i].orders);
    }
    if (kept[0] != left[0] || kept[1] != left[1])
        fail("the last client has left, and the file is not what is shown");
    end(&subject);
    munmap(crew, sizeof(*crew));
    return orders;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: stock_killed FOLDER LOCK\n");
        return 2;
    }
    snprintf(path, sizeof(path), "%s/stock.txt", words[1]);
    long stepped = step_all(words[2]), orders = kill_at_random(words[2]);
    printf("%ld moments, %ld orders\n", stepped, orders);
    return 0;
}
