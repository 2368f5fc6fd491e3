/* kneepoint-load SERVICE LOAD --to HOST:PORT --result FD [--alive FD] [--server-pid PID] [--server-tree 1]
 *                [--counters FD] [--seed N] [--warmup NS] [--window NS] [name=value …]
 *
 * Runs one load in a process of its own, and writes what it recorded into the shared memory behind --result
 * (load/result.h). The process is small: a fork of it costs a fraction of a fork of a process with NumPy in
 * it.
 *
 * It is a keeper, and the load runs in its only child: when the pipe behind --alive closes, the child and all
 * processes that it has forked are killed and waited for. Should the keeper die first, the kernel kills the
 * child, and with it what the child has forked. Exit status: 0 done, 1 the load failed, 2 wrong arguments. */
#define _GNU_SOURCE
#include "core/arguments.h"
#include "core/load.h"
#include "core/registry.h"
#include "core/sock.h"
#include "load/result.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
    const char *service_name, *load_name;
    int64_t result_fd, alive, counters; /* descriptors; the latter two -1 where not given */
    const struct load_ops *load;
    struct load_env env;
    struct load_result *result;
};

static int fail(int status, const char *message) {
    fprintf(stderr, "kneepoint-load: %s\n", message);
    return status;
}

static int read_address(const char *text, struct sockaddr_in *out) {
    char host[64];
    const char *colon = text ? strrchr(text, ':') : NULL;
    int64_t port;
    if (!colon || (size_t)(colon - text) >= sizeof(host) || arguments_number(colon + 1, 65535, &port))
        return -EINVAL;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    return sock_address(host, (uint16_t)port, out);
}

static void *map_shared(int64_t fd, size_t size) {
    struct stat file;
    if (fstat((int)fd, &file) || (size_t)file.st_size != size)
        return NULL;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Gives every knob of load, service and server its value, and checks those that were given. 0, or the exit
 * status after the message has been written. */
static int fill(struct config *config, const struct request *request) {
    const struct knob *tables[] = {request->load->knobs, request->env.service->knobs, server_common_knobs};
    char message[512];
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
        if (config_fill(config, tables[i]))
            return fail(1, "out of memory");
        for (const struct knob *knob = tables[i]; knob->name; knob++)
            if (config_check(knob, config_text(config, knob->name), message, sizeof(message)))
                return fail(2, message);
    }
    return 0;
}

static int read_words(int count, char **words, struct config *config, struct request *request) {
    const char *to = NULL, *result = NULL, *alive = NULL, *counters = NULL;
    const char *pid = "0", *tree = "0", *seed = "1", *warmup = "0", *window = "1000000000";
    const char **const names[] = {&request->service_name, &request->load_name, NULL};
    const struct argument_option options[] = {
        {"--to", &to},
        {"--result", &result},
        {"--alive", &alive},
        {"--seed", &seed},
        {"--server-pid", &pid},
        {"--server-tree", &tree},
        {"--counters", &counters},
        {"--warmup", &warmup},
        {"--window", &window},
        {0},
    };
    int64_t server_pid, server_tree, number;
    *request = (struct request){.alive = -1, .counters = -1};
    if (arguments_read(count, words, names, options, config) || read_address(to, &request->env.to) ||
        !result || arguments_number(result, INT_MAX, &request->result_fd) ||
        arguments_number(pid, INT_MAX, &server_pid) || arguments_number(tree, 1, &server_tree) ||
        arguments_number(seed, INT64_MAX, &number) ||
        arguments_number(warmup, INT64_MAX, &request->env.warmup_ns) ||
        arguments_number(window, INT64_MAX, &request->env.window_ns) ||
        (alive && arguments_number(alive, INT_MAX, &request->alive)) ||
        (counters && arguments_number(counters, INT_MAX, &request->counters)))
        return -EINVAL;
    request->env.seed = (uint64_t)number;
    request->env.server_pid = (int)server_pid;
    request->env.server_tree = (int)server_tree;
    request->env.config = config;
    return 0;
}

static int no_such(const char *name, const char *kind) {
    char message[128];
    snprintf(message, sizeof(message), "%.64s: no such %s", name, kind);
    return fail(2, message);
}

/* Finds the parts by their names and maps the shared memory. 0, or the exit status after the message has been
 * written. */
static int resolve(struct request *request, struct config *config) {
    struct load_env *env = &request->env;
    request->load = registry_load(request->load_name);
    env->service = registry_service(request->service_name);
    if (!env->service)
        return no_such(request->service_name, "service");
    if (!request->load)
        return no_such(request->load_name, "load");
    int status = fill(config, request);
    if (status)
        return status;
    size_t operations = result_operations(env->service);
    size_t size = result_size(operations, (size_t)config_int(config, "clients"));
    request->result = map_shared(request->result_fd, size);
    if (!request->result)
        return fail(2, "--result: not shared memory of the size of this build's result");
    result_place(request->result, operations);
    if (request->counters >= 0 && !(env->counters = map_shared(request->counters, counters_size())))
        return fail(2, "--counters: not shared memory of the size of a page of counters");
    return 0;
}

/* The child: runs the load; gives the exit status. */
static int run(const struct request *request) {
    char message[512] = "";
    void *load;
    int rc = request->load->create(&request->env, message, sizeof(message), &load);
    if (!rc) {
        rc = request->load->run(load, request->result, message, sizeof(message));
        request->load->destroy(load);
    }
    return rc ? fail(1, *message ? message : strerror(-rc)) : 0;
}

/* Sleeps until the child has ended or the pipe is closed, then ends all that is left of the child's group;
 * gives the exit status. */
static int keep(pid_t child, int64_t alive) {
    int ended = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd ready[2] = {{ended, POLLIN, 0}, {(int)alive, 0, 0}};
    while (ended >= 0 && poll(ready, alive < 0 ? 1 : 2, -1) < 0 && errno == EINTR)
        ;
    /* Before the child is waited for: until then nobody else can get its number. */
    kill(-child, SIGKILL);
    int status, of_child = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, 0)) > 0 || errno == EINTR;)
        if (pid == child)
            of_child = status;
    if (ended < 0)
        return fail(1, "cannot watch the load's process (pidfd_open)");
    close(ended);
    if (WIFEXITED(of_child))
        return WEXITSTATUS(of_child);
    char message[64];
    snprintf(message, sizeof(message), "the load was killed by signal %d", WTERMSIG(of_child));
    return fail(1, message);
}

/* Runs the load in a child that leads a process group of its own. */
static int run_kept(const struct request *request) {
    pid_t keeper = getpid();
    /* What the child leaves behind comes to us, and is waited for. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1UL))
        return fail(1, strerror(errno));
    pid_t child = fork();
    if (child < 0)
        return fail(1, strerror(errno));
    setpgid(child, child);
    if (child)
        return keep(child, request->alive);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != keeper)
        return 1;
    return run(request);
}

int main(int count, char **words) {
    struct config *config;
    struct request request;
    if (config_create(&config))
        return fail(1, "out of memory");
    int status =
        read_words(count, words, config, &request)
            ? fail(2, "usage: kneepoint-load SERVICE LOAD --to HOST:PORT --result FD [--alive FD] "
                      "[--server-pid PID] [--server-tree 1] [--counters FD] [--seed N] [--warmup NS] "
                      "[--window NS] [name=value ...]")
            : resolve(&request, config);
    if (!status)
        status = run_kept(&request);
    config_destroy(config);
    return status;
}
