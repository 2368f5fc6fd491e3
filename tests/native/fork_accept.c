/* A process for each connection, as bare as it can be written: the peer of tests/benchmarks/test_fork.py.
 *
 * Listens on a free port of the loopback, prints it, and answers one "work" line on each connection by "done
 * 0", until it is killed. */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int signal_number) {
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void serve(int fd) {
    char line[64];
    if (read(fd, line, sizeof(line)) <= 0 || write(fd, "done 0\n", 7) != 7)
        _exit(1);
    _exit(0);
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1024) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        return 1;
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = reap, .sa_flags = SA_RESTART}, NULL);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        if (!fork()) {
            close(listener);
            serve(fd);
        }
        close(fd);
    }
}
