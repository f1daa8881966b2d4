/* The conformance suite over tcp, with both pollers; without keys, authenticated and encrypted; and
 * over connections that are made after the pipes, as at the first use of a link. Each leaf hangs on
 * three real TCP connections over loopback; where the suite wishes a troubled network, on one, with
 * a relay in between. In haste four variants of eight have each poller, each seal and both ways to
 * connect. */
#include "link/suite.h"

#include "rig/haste.h"
#include "rig/tcp_pair.h"

#include <errno.h>

#define CONNECTIONS 3

static const char *variant; /* under test now */
static enum gyre_seal_mode security;
static bool first_use;

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

/* Has the driver ask for each connection of a pipe, and makes them, as a domain does. */
static int make_connections(struct gyre_wire *wire, struct gyre_pipe *pipe, const int *fd, int fds)
{
    struct gyre_break lost;
    int asked = 0, status = 0;
    while (gyre_driver_tcp.broken(wire, &lost))
        asked += lost.first && lost.index < fds && lost.received == 0 && lost.number == 0;
    if (asked != fds)
        return -EPROTO;
    for (int i = 0; i < fds && !status; i++) {
        uint64_t received = 1;
        status = gyre_driver_tcp.part(pipe, i, 1, &received);
        if (!status && received)
            status = -EPROTO;
        if (!status)
            status = gyre_driver_tcp.renew(pipe, i, fd[i], 1, 0);
    }
    return status;
}

/* Attaches a pipe, over sockets or before there are any. */
static int attach_end(struct gyre_wire *wire, struct gyre_channel *channel, struct gyre_pipe **pipe,
                      struct gyre_trouble *trouble)
{
    struct gyre_channel bare = *channel;
    for (int i = 0; i < bare.fds; i++)
        bare.fd[i] = -1;
    if (!first_use)
        return gyre_driver_tcp.attach(wire, channel, pipe, trouble);
    int status = gyre_driver_tcp.attach(wire, &bare, pipe, trouble);
    return status ? status : make_connections(wire, *pipe, channel->fd, channel->fds);
}

static int join_leaf(const struct gyre_link_wish *wish, struct gyre_link_net *net, int leaf,
                     struct gyre_trouble *trouble)
{
    const bool troubled = wish->split || wish->flip_at >= 0;
    const bool one = troubled || wish->narrow;
    struct gyre_channel progress = {.peer = (uint32_t)leaf + 1, .fds = one ? 1 : CONNECTIONS};
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
    int status = attach_end(net->wire[0], &progress, &net->outward[leaf], trouble);
    if (status)
        return status;
    return attach_end(net->wire[leaf + 1], &outer, &net->inward[leaf], trouble);
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

static struct gyre_link_bench bench = {.driver = &gyre_driver_tcp,
                                       .splits = true,
                                       .flips = true,
                                       .brief = true,
                                       .connect = connect_net,
                                       .kill = kill_leaf};

static int suite_over(const char *poller, const char *name)
{
    variant = poller;
    return gyre_link_suite(name, &bench);
}

/* Each poller and each seal sends more than 4 GiB in one of two variants, in haste in the first. */
static int suite_at_length(const char *poller, const char *name)
{
    bench.brief = false;
    int bad = suite_over(poller, name);
    bench.brief = true;
    return bad;
}

/* What haste leaves out. */
static int all_other_variants(void)
{
    security = GYRE_SEAL_NONE;
    int bad = suite_over("io_uring", "tcp/io_uring");
    security = GYRE_SEAL_AUTH;
    bad += suite_over("epoll", "tcp/epoll, authenticated");
    security = GYRE_SEAL_ENCRYPT;
    bad += suite_at_length("epoll", "tcp/epoll, encrypted");
    return bad + suite_over("io_uring", "tcp/io_uring, encrypted");
}

int main(void)
{
    int bad = suite_over("epoll", "tcp/epoll");
    security = GYRE_SEAL_AUTH;
    bad += suite_at_length("io_uring", "tcp/io_uring, authenticated");
    if (!in_haste())
        bad += all_other_variants();
    first_use = true;
    security = GYRE_SEAL_ENCRYPT;
    bad += suite_over("epoll", "tcp/epoll, encrypted, connected at the first use");
    security = GYRE_SEAL_NONE;
    return bad + suite_over("io_uring", "tcp/io_uring, connected at the first use");
}
