/* The conformance suite over tcp, with both pollers; without keys, authenticated and encrypted.
 * Each leaf hangs on three real TCP connections over loopback; where the suite wishes a troubled
 * network, on one, with a relay in between. */
#include "link/suite.h"

#include "rig/tcp_pair.h"

#include <errno.h>

#define CONNECTIONS 3

static const char *variant; /* under test now */
static enum gyre_seal_mode security;

/* As join derives them: each connection's, each direction's. */
static struct gyre_traffic_keys keys[2][CONNECTIONS] = {
    {{.out = {1}, .in = {2}}, {.out = {3}, .in = {4}}, {.out = {5}, .in = {6}}},
    {{.out = {2}, .in = {1}}, {.out = {4}, .in = {3}}, {.out = {6}, .in = {5}}}};

static int open_wires(struct gyre_link_net *net, uint32_t n, struct gyre_trouble *trouble)
{
    int status = 0;
    for (uint32_t rank = 0; !status && rank < n; rank++) {
        struct gyre_wire_options options = {
            .rank = rank, .n = n, .epoch = 3, .peers = n, .variant = variant};
        status = gyre_driver_tcp.open(&options, &net->wire[rank], trouble);
    }
    return status;
}

static int join_leaf(const struct gyre_link_wish *wish, struct gyre_link_net *net, int leaf,
                     struct gyre_trouble *trouble)
{
    const bool troubled = wish->split || wish->flip_at >= 0;
    struct gyre_channel progress = {.peer = (uint32_t)leaf + 1, .fds = troubled ? 1 : CONNECTIONS};
    struct gyre_channel outer = {.peer = 0, .fds = progress.fds};
    progress.security = outer.security = security;
    progress.keys = keys[0];
    outer.keys = keys[1];
    for (int i = 0; i < progress.fds; i++) {
        int fd[2];
        int status = troubled                              ? gyre_link_sockets(wish, net, leaf, fd)
                     : tcp_pair_sockets(TCP_PAIR_INET, fd) ? 0
                                                           : -EADDRNOTAVAIL;
        if (status)
            return gyre_trouble_set(trouble, status, "no connected sockets on this machine");
        progress.fd[i] = fd[0];
        outer.fd[i] = fd[1];
    }
    int status = gyre_driver_tcp.attach(net->wire[0], &progress, &net->outward[leaf], trouble);
    if (status)
        return status;
    return gyre_driver_tcp.attach(net->wire[leaf + 1], &outer, &net->inward[leaf], trouble);
}

static int connect_net(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                       struct gyre_trouble *trouble)
{
    int status = open_wires(net, 1 + (uint32_t)wish->leaves, trouble);
    for (int leaf = 0; !status && leaf < wish->leaves; leaf++)
        status = join_leaf(wish, net, leaf, trouble);
    return status;
}

/* What is left of a process that died is closed sockets. */
static void kill_leaf(struct gyre_link_net *net)
{
    gyre_driver_tcp.detach(net->inward[0]);
    net->inward[0] = NULL;
}

static const struct gyre_link_bench bench = {.driver = &gyre_driver_tcp,
                                             .splits = true,
                                             .flips = true,
                                             .connect = connect_net,
                                             .kill = kill_leaf};

static int suite_over(const char *poller, const char *name)
{
    variant = poller;
    return gyre_link_suite(name, &bench);
}

int main(void)
{
    int bad = suite_over("epoll", "tcp/epoll") + suite_over("io_uring", "tcp/io_uring");
    security = GYRE_SEAL_AUTH;
    bad += suite_over("epoll", "tcp/epoll, authenticated");
    bad += suite_over("io_uring", "tcp/io_uring, authenticated");
    security = GYRE_SEAL_ENCRYPT;
    bad += suite_over("epoll", "tcp/epoll, encrypted");
    return bad + suite_over("io_uring", "tcp/io_uring, encrypted");
}
