/* Clients of the stock server as its course hands them out: blocking, a request a line, and every reply read
 * as exactly 8192 bytes, however long the text in it is.
 *
 *     lab_clients HOST PORT N    "multiclient": N forked clients, ORDERS random requests each
 *     lab_clients HOST PORT      "stockclient": a line of standard input is a request, until it ends
 *
 * Requests and what replies say go to standard output, each client's at once. The reading is that of the course's robust I/O: it goes on until
 * the buffer is full or the server closes, so a server that sends less leaves its client waiting for ever.
 * Exit status 1: no connection, a write failed, or a reply was shorter. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAXLINE = 8192, ORDERS = 10, STOCKS = 10, MOST = 10, MAX_CLIENTS = 100 };

static int connect_to(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)))
        return -1;
    return fd;
}

static int write_all(int fd, const char *text, size_t length) {
    while (length) {
        ssize_t written = write(fd, text, length);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            text += written;
            length -= (size_t)written;
        }
    }
    return 0;
}

/* Bytes read: fewer than MAXLINE only when the server has closed. */
static size_t read_full(int fd, char reply[MAXLINE]) {
    size_t length = 0;
    while (length < MAXLINE) {
        ssize_t got = read(fd, reply + length, MAXLINE - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    return length;
}

/* The reply's text is what stands before its first zero, as fputs takes it. */
static int ask(int fd, const char *line) {
    char reply[MAXLINE];
    if (write_all(fd, line, strlen(line)) || read_full(fd, reply) != MAXLINE || reply[MAXLINE - 1])
        return -1;
    return fputs(line, stdout) < 0 || fputs(reply, stdout) < 0 ? -1 : 0;
}

static int order(int fd) {
    static const char *const words[] = {"show", "buy", "sell"};
    int option = rand() % 3;
    char line[64];
    if (option == 0)
        snprintf(line, sizeof(line), "show\n");
    else
        snprintf(line, sizeof(line), "%s %d %d\n", words[option], rand() % STOCKS + 1, rand() % MOST + 1);
    return ask(fd, line);
}

static int be_client(const char *host, const char *port) {
    int fd = connect_to(host, port), failed = fd < 0;
    setvbuf(stdout, NULL, _IOFBF, 1 << 18);
    srand((unsigned)getpid());
    for (int i = 0; !failed && i < ORDERS; i++)
        failed = order(fd) < 0;
    fflush(stdout);
    if (fd >= 0)
        close(fd);
    return failed;
}

static int multiclient(const char *host, const char *port, int count) {
    int failed = 0, status;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (!pid)
            _exit(be_client(host, port));
        failed |= pid < 0;
    }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}

static int stockclient(const char *host, const char *port) {
    char line[MAXLINE];
    int fd = connect_to(host, port), failed = fd < 0;
    while (!failed && fgets(line, sizeof(line), stdin)) {
        failed = ask(fd, line) < 0;
        if (!strcmp(line, "exit\n"))
            break;
    }
    if (fd >= 0)
        close(fd);
    return failed;
}

int main(int count, char **words) {
    int clients = count == 4 ? atoi(words[3]) : 1;
    if (count < 3 || count > 4 || clients < 1 || clients > MAX_CLIENTS) {
        fprintf(stderr, "usage: lab_clients HOST PORT [N]\n");
        return 2;
    }
    return count == 4 ? multiclient(words[1], words[2], clients) : stockclient(words[1], words[2]);
}
