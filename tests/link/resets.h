/* Resets of TCP connections, as a firewall or a forged segment makes them: both ends get an error,
 * and what had come can still be read. The kernel is asked through sock_diag, which takes a
 * privilege over the network namespace. */
#ifndef GYRE_TESTS_LINK_RESETS_H
#define GYRE_TESTS_LINK_RESETS_H

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SOCK_DESTROY
#define SOCK_DESTROY 21
#endif

/* Has the kernel of this network namespace act on a request; false: refused. */
static inline bool reset_ask_kernel(const void *request, size_t length)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[256];
    } answer = {{0}, {0}, {0}};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool asked = fd >= 0 && send(fd, request, length, 0) == (ssize_t)length &&
                 recv(fd, &answer, sizeof answer, 0) > 0;
    if (fd >= 0)
        close(fd);
    return asked && answer.head.nlmsg_type == NLMSG_ERROR && answer.error.error == 0;
}

/* Resets the IPv4 connection of a socket, at this end, which tells the other. False: refused, or no
 * connection any more. */
static inline bool reset_connection(int fd)
{
    struct sockaddr_in here, there;
    uint64_t cookie; /* without it the kernel may take the listener of that port instead */
    socklen_t here_length = sizeof here, there_length = sizeof there;
    socklen_t cookie_length = sizeof cookie;
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } request = {
        .head = {.nlmsg_len = sizeof request,
                 .nlmsg_type = SOCK_DESTROY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .body = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
    if (getsockname(fd, (struct sockaddr *)&here, &here_length) ||
        getpeername(fd, (struct sockaddr *)&there, &there_length) || here.sin_family != AF_INET ||
        getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &cookie_length))
        return false;
    request.body.id =
        (struct inet_diag_sockid){.idiag_sport = here.sin_port,
                                  .idiag_dport = there.sin_port,
                                  .idiag_src = {here.sin_addr.s_addr},
                                  .idiag_dst = {there.sin_addr.s_addr},
                                  .idiag_cookie = {(uint32_t)cookie, (uint32_t)(cookie >> 32)}};
    return reset_ask_kernel(&request, sizeof request);
}

/* Whether resets are permitted, after a step into a network namespace of its own where needed. Call
 * before any thread is started. */
static inline bool reset_permitted(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    for (int tries = 0; tries < 2; tries++) {
        int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
        bool good = !bind(listener, (struct sockaddr *)&address, length) && !listen(listener, 1) &&
                    !getsockname(listener, (struct sockaddr *)&address, &length) &&
                    !connect(fd, (struct sockaddr *)&address, length) && reset_connection(fd);
        close(fd);
        close(listener);
        if (good || tries)
            return good;
        struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
            return false;
        int any = socket(AF_INET, SOCK_DGRAM, 0);
        (void)ioctl(any, SIOCSIFFLAGS, &lo);
        close(any);
        address.sin_port = 0;
    }
    return false;
}

#endif
