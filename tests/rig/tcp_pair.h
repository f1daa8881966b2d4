/* Two wires of the tcp driver in one process, joined by real connections: what the tcp tests stand
 * on. */
#ifndef GYRE_TESTS_RIG_TCP_PAIR_H
#define GYRE_TESTS_RIG_TCP_PAIR_H

#include "transport/link/table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum tcp_pair_family { TCP_PAIR_LOCAL, TCP_PAIR_INET };

/* A connected pair of stream sockets; false if this machine gives none. */
static inline bool tcp_pair_sockets(enum tcp_pair_family family, int fd[2])
{
    if (family == TCP_PAIR_LOCAL)
        return !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = listener >= 0 && !bind(listener, (struct sockaddr *)&address, length) &&
                !listen(listener, 1) &&
                !getsockname(listener, (struct sockaddr *)&address, &length);
    fd[0] = good ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    good = good && !connect(fd[0], (struct sockaddr *)&address, length);
    fd[1] = good ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    close(listener);
    return good && fd[1] >= 0;
}

#define TCP_PAIR_PIPES 8

struct tcp_pair { /* rank 0 and rank 1; pipe i of one is joined to pipe i of the other */
    struct gyre_wire *wire[2];
    struct gyre_pipe *pipe[2][TCP_PAIR_PIPES];
    int pipes;
};

static inline int tcp_pair_join(struct tcp_pair *pair, enum tcp_pair_family family, int connections)
{
    struct gyre_channel channel[2] = {{.peer = 1, .fds = connections},
                                      {.peer = 0, .fds = connections}};
    for (int i = 0; i < connections; i++) {
        int fd[2];
        if (!tcp_pair_sockets(family, fd))
            return -1;
        channel[0].fd[i] = fd[0];
        channel[1].fd[i] = fd[1];
    }
    for (int side = 0; side < 2; side++)
        if (gyre_driver_tcp.attach(pair->wire[side], &channel[side], &pair->pipe[side][pair->pipes],
                                   NULL))
            return -1;
    pair->pipes++;
    return 0;
}

/* `wish` of each side: its variant and bare_payload. */
static inline int tcp_pair_open_as(struct tcp_pair *pair, const struct gyre_wire_options wish[2],
                                   enum tcp_pair_family family, int pipes, int connections)
{
    *pair = (struct tcp_pair){0};
    for (uint32_t side = 0; side < 2; side++) {
        struct gyre_wire_options options = {.rank = side,
                                            .n = 2,
                                            .epoch = 7,
                                            .peers = TCP_PAIR_PIPES,
                                            .variant = wish[side].variant,
                                            .bare_payload = wish[side].bare_payload};
        if (gyre_driver_tcp.open(&options, &pair->wire[side], NULL))
            return -1;
    }
    for (int i = 0; i < pipes; i++)
        if (tcp_pair_join(pair, family, connections))
            return -1;
    return 0;
}

static inline int tcp_pair_open(struct tcp_pair *pair, const char *variant,
                                enum tcp_pair_family family, int pipes, int connections)
{
    const struct gyre_wire_options both[2] = {{.variant = variant}, {.variant = variant}};
    return tcp_pair_open_as(pair, both, family, pipes, connections);
}

static inline void tcp_pair_close(struct tcp_pair *pair)
{
    gyre_driver_tcp.close(pair->wire[0]);
    gyre_driver_tcp.close(pair->wire[1]);
}

#endif
