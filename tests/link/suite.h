/* One conformance suite for every driver. A driver's test is a bench and one line:
 *
 *     static const struct gyre_link_bench bench = {.driver = &gyre_driver_tcp, .connect = …, …};
 *     int main(void) { return gyre_link_suite("tcp/epoll", &bench); }
 *
 * The suite works on a small net in this process: one hub and some leaves (one, unless wished
 * otherwise), each leaf a wire of its own with one pipe to the hub. What a bench cannot do is a
 * skip with its reason. */
#ifndef GYRE_TESTS_LINK_SUITE_H
#define GYRE_TESTS_LINK_SUITE_H

#include "transport/link/table.h"

#define GYRE_LINK_LEAVES 4

struct gyre_link_wish {
    int leaves;      /* 1 … GYRE_LINK_LEAVES */
    bool split;      /* bytes arrive one at a time */
    bool narrow;     /* one connection, where a pipe has several */
    int64_t flip_at; /* one bit of this byte from the hub to leaf 0 arrives flipped; -1: none */
};

struct gyre_link_net {
    int leaves;
    struct gyre_wire *wire[1 + GYRE_LINK_LEAVES]; /* the hub's, then the leaves' */
    struct gyre_pipe *outward[GYRE_LINK_LEAVES];  /* the hub's pipe to each leaf */
    struct gyre_pipe *inward[GYRE_LINK_LEAVES];   /* each leaf's pipe to the hub */
    void *own;                                    /* the bench's */
    struct gyre_link_relay *relay;                /* of gyre_link_sockets() */
};

struct gyre_link_bench {
    const struct gyre_driver *driver;
    bool splits, flips; /* wishes it can fulfil */
    bool deaf;          /* the carrier does not tell that the peer has gone: the watch does */
    bool brief;         /* another bench has every counter of this one: 128 MiB in place of 4 GiB */

    /* Opens all wires and attaches all pipes; 0 or negative with the story. */
    int (*connect)(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                   struct gyre_trouble *trouble);

    /* Releases what connect() made besides wires and pipes; the wires are closed already. NULL:
     * nothing. */
    void (*disconnect)(struct gyre_link_net *net);

    /* Leaf 0 dies as a process would, without a word. NULL: cannot be played. */
    void (*kill)(struct gyre_link_net *net);

    /* Nothing moved: let time pass. NULL: yield. */
    void (*idle)(struct gyre_link_net *net);

    /* NULL: the monotonic clock. */
    uint64_t (*now)(const struct gyre_link_net *net);
};

/* Runs every case; the number of failures. The name is that of driver and variant. */
int gyre_link_suite(const char *name, const struct gyre_link_bench *bench);

/* For drivers over descriptors: a connected pair of sockets as wished (a relay thread splits and
 * flips between them); fd[0] is the hub's, fd[1] the leaf's. Call it once per leaf. 0 or -errno.
 * The suite stops the relays. */
int gyre_link_sockets(const struct gyre_link_wish *wish, struct gyre_link_net *net, int leaf,
                      int fd[2]);

void gyre_link_relays_stop(struct gyre_link_net *net);

#endif
