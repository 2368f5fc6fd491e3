#define _GNU_SOURCE
#include "netns.h"
#include "child.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REQUEST_ROOM = 512, REPLY_ROOM = 8192, ADDRESS_BITS = 30, UP_TRIES = 1500, PATIENCE_S = 2 };
/* High, as a new namespace may have links already. Where both ends of a pair have the same number, the kernel
 * takes a second to notice that they are up. */
enum { NEAR_INDEX = 1001, FAR_INDEX = 1002 };
#define NEAR_LINK "near"
#define FAR_LINK "far"

/* ---- rtnetlink ---- */

struct request {
    struct nlmsghdr head;
    char body[REQUEST_ROOM];
};

static void *append(struct request *request, size_t length) {
    void *at = (char *)request + NLMSG_ALIGN(request->head.nlmsg_len);
    request->head.nlmsg_len = (uint32_t)(NLMSG_ALIGN(request->head.nlmsg_len) + length);
    return at;
}

/* Without data it is the beginning of what holds others: `end_of` gives it its length. */
static struct rtattr *attribute(struct request *request, int type, const void *data, size_t length) {
    struct rtattr *attribute = append(request, RTA_LENGTH(length));
    attribute->rta_type = (unsigned short)type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(length);
    if (length)
        memcpy(RTA_DATA(attribute), data, length);
    return attribute;
}

static void end_of(struct request *request, struct rtattr *attribute) {
    attribute->rta_len = (unsigned short)((char *)request + request->head.nlmsg_len - (char *)attribute);
}

static void begin(struct request *request, int type, int flags) {
    *request = (struct request){.head = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = (uint16_t)type}};
    request->head.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
}

union reply {
    struct nlmsghdr head;
    char room[REPLY_ROOM];
};

/* In the namespace that the process is in now. Gives how many bytes came. */
static ssize_t exchange(const struct request *request, union reply *reply) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    ssize_t got = send(fd, request, request->head.nlmsg_len, 0);
    got = got < 0 ? got : recv(fd, reply, sizeof(*reply), 0);
    got = got < 0 ? -errno : got;
    close(fd);
    if (got >= 0 && reply->head.nlmsg_type == NLMSG_ERROR) {
        const struct nlmsgerr *error = NLMSG_DATA(&reply->head);
        return error->error ? error->error : got;
    }
    return got;
}

static int ask(const struct request *request) {
    union reply reply;
    ssize_t got = exchange(request, &reply);
    return got < 0 ? (int)got : 0;
}

static void add_link(struct request *request, int index, unsigned flags) {
    struct ifinfomsg *link = append(request, sizeof(*link));
    *link = (struct ifinfomsg){.ifi_index = index, .ifi_flags = flags, .ifi_change = flags};
}

static int make_link(int far) {
    struct request request;
    begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    add_link(&request, NEAR_INDEX, 0);
    attribute(&request, IFLA_IFNAME, NEAR_LINK, sizeof(NEAR_LINK));
    struct rtattr *info = attribute(&request, IFLA_LINKINFO, NULL, 0);
    attribute(&request, IFLA_INFO_KIND, "veth", sizeof("veth"));
    struct rtattr *data = attribute(&request, IFLA_INFO_DATA, NULL, 0);
    struct rtattr *peer = attribute(&request, VETH_INFO_PEER, NULL, 0);
    add_link(&request, FAR_INDEX, 0);
    attribute(&request, IFLA_IFNAME, FAR_LINK, sizeof(FAR_LINK));
    attribute(&request, IFLA_NET_NS_FD, &far, sizeof(far));
    end_of(&request, peer);
    end_of(&request, data);
    end_of(&request, info);
    return ask(&request);
}

static int set_up(int index) {
    struct request request;
    begin(&request, RTM_NEWLINK, 0);
    add_link(&request, index, IFF_UP);
    return ask(&request);
}

static int set_address(int index, const char *text) {
    struct request request;
    struct in_addr address;
    inet_pton(AF_INET, text, &address);
    begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    struct ifaddrmsg *to = append(&request, sizeof(*to));
    *to = (struct ifaddrmsg){
        .ifa_family = AF_INET, .ifa_prefixlen = ADDRESS_BITS, .ifa_index = (unsigned)index};
    attribute(&request, IFA_LOCAL, &address, sizeof(address));
    attribute(&request, IFA_ADDRESS, &address, sizeof(address));
    return ask(&request);
}

static int is_up(int index) {
    struct request request;
    union reply reply;
    begin(&request, RTM_GETLINK, 0);
    request.head.nlmsg_flags &= (uint16_t)~NLM_F_ACK; /* the reply comes instead */
    add_link(&request, index, 0);
    ssize_t got = exchange(&request, &reply);
    if (got < 0)
        return (int)got;
    const struct rtattr *at = IFLA_RTA(NLMSG_DATA(&reply.head));
    int left = (int)got - (int)NLMSG_LENGTH(sizeof(struct ifinfomsg));
    for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
        if (at->rta_type == IFLA_OPERSTATE)
            return *(const unsigned char *)RTA_DATA(at) == IF_OPER_UP;
    return 0;
}

/* A work queue of the kernel opens a link whose other end came up later: packets are dropped before. */
static int wait_up(int index) {
    int rc = 0;
    for (int i = 0; !rc && i < UP_TRIES; i++)
        if (!(rc = is_up(index)))
            poll(NULL, 0, 1);
    return rc < 0 ? rc : rc ? 0 : -ETIMEDOUT;
}

/* ---- in the process that moves ---- */

struct answer {
    int rc;
    char what[80];
};

/* A namespace of our own; who may not make one asks for a user namespace in which he may. */
static int leave(void) {
    if (!unshare(CLONE_NEWNET))
        return 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) ? -errno : 0;
}

static int here(void) {
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int go(int namespace) {
    return setns(namespace, CLONE_NEWNET) ? -errno : 0;
}

static int join(int near, int far) {
    int rc;
    if ((rc = go(near)) || (rc = make_link(far)) || (rc = set_up(NEAR_INDEX)) ||
        (rc = set_address(NEAR_INDEX, NETNS_NEAR)) || (rc = go(far)) || (rc = set_up(FAR_INDEX)) ||
        (rc = set_address(FAR_INDEX, NETNS_FAR)) || (rc = wait_up(FAR_INDEX)) || (rc = go(near)))
        return rc;
    return wait_up(NEAR_INDEX);
}

static void make_there(netns_maker *make, int fd[2], struct answer *answer) {
    int near = -1, far = -1;
    const char *what = "network namespaces of its own";
    int rc = leave();
    rc = rc ? rc : (near = here()) < 0 ? near : leave();
    rc = rc ? rc : (far = here()) < 0 ? far : 0;
    if (!rc) {
        what = "a veth pair";
        rc = join(near, far);
    }
    if (!rc) {
        what = "a connection over its pair";
        rc = make(near, far, fd);
    }
    answer->rc = rc;
    snprintf(answer->what, sizeof(answer->what), "%s", what);
}

/* ---- and the one that stays ---- */

union descriptors {
    char room[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr head;
};

static int hand_over(int to, const struct answer *answer, const int fd[2]) {
    union descriptors control = {0};
    struct iovec data = {(void *)answer, sizeof(*answer)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (!answer->rc) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof(control.room);
        control.head = (struct cmsghdr){CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), fd, 2 * sizeof(int));
    }
    return sendmsg(to, &message, MSG_NOSIGNAL) < 0;
}

static int receive(int from, struct answer *answer, int fd[2]) {
    union descriptors control = {0};
    struct iovec data = {answer, sizeof(*answer)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != sizeof(*answer))
        return -ECHILD;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (answer->rc)
        return answer->rc;
    if (!head || head->cmsg_len != CMSG_LEN(2 * sizeof(int)))
        return -EMFILE; /* there was no room for them in our table */
    memcpy(fd, CMSG_DATA(head), 2 * sizeof(int));
    return 0;
}

static int explain(int rc, const char *what, char *message, size_t room) {
    const char *cure = "";
    if (rc == -EPERM || rc == -EACCES)
        cure = ": be root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
               "kernel.apparmor_restrict_unprivileged_userns=0)";
    else if (rc == -ENOSPC || rc == -EUSERS)
        cure = ": raise sysctl user.max_net_namespaces and user.max_user_namespaces";
    else if (rc == -EOPNOTSUPP)
        cure = ": load the module (modprobe veth)";
    else if (rc == -EMFILE)
        cure = ": raise the limit of open files (ulimit -n)";
    snprintf(message, room, "veth needs %s: %s%s", what, strerror(-rc), cure);
    return rc;
}

int netns_make(netns_maker *make, int fd[2], char *message, size_t room) {
    int pair[2];
    struct answer answer = {.what = "a process in its namespaces, which died"};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return explain(-errno, "a pair of sockets", message, room);
    pid_t pid = child_fork();
    if (!pid) {
        alarm(PATIENCE_S);
        int made[2];
        make_there(make, made, &answer);
        _exit(hand_over(pair[1], &answer, made));
    }
    int rc = pid < 0 ? -errno : 0;
    close(pair[1]);
    if (rc)
        snprintf(answer.what, sizeof(answer.what), "a process in its namespaces");
    else
        rc = receive(pair[0], &answer, fd);
    close(pair[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return rc ? explain(rc, answer.what, message, room) : 0;
}
