/* The result of a join: all ranks, and this rank's channels to each of them. */
#ifndef GYRE_TRANSPORT_JOIN_JOINED_H
#define GYRE_TRANSPORT_JOIN_JOINED_H

#include "transport/join/options.h"
#include "transport/net/crypto.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct gyre_member { /* a rank; the same on every rank */
    char host[64];
    int32_t pid;
    uint8_t device[16]; /* UUID of its CUDA device; zeros: none */
    int32_t local_rank; /* place within the node, counted by rank after the nodes are known */
    uint32_t node;      /* nodes are numbered by their lowest rank */
    bool large;         /* its node is: ranks of it have met along a tree only */
    struct sockaddr_storage address; /* address of this rank's data listener */
};

/* This rank's channels to one peer; -1: none. The owner of the struct owns the descriptors. */
struct gyre_peer {
    /* SOCK_SEQPACKET, same node only: regions and the watch's messages. In a large node only to
     * the ranks just above and below in the tree of the node. */
    int unix_fd;
    int pidfd; /* with unix_fd: the peer's process */
    /* Data connections, same order on both sides; -1 where they are made at their first use. */
    int tcp[GYRE_TCP_CONNECTIONS_MAX];
    int tcps;
    struct gyre_traffic_keys tcp_keys[GYRE_TCP_CONNECTIONS_MAX]; /* of each data connection */
    bool one_machine; /* the peer runs on this machine, as nodes see it */
    /* The watch's connection. Rank 0 to each rank and back: the one over which it has joined. In a
     * tree of nodes: to the lowest ranks of the nodes just above and below. */
    int control;
    struct gyre_traffic_keys control_keys;
};

struct gyre_joined {
    uint32_t rank, n;
    uint32_t nodes, node, local_rank, local_size;
    /* This node is large: its ranks share the memory of `node_file`, for `places` ranks
     * (transport/memory/node_memory.h), and have met along a tree only. -1: not. */
    bool large;
    int node_file;
    uint32_t places;
    /* Data connections are made at their first use (transport/watch/renew.h): the job has more
     * ranks than connect at once, and every rank can. Where a rank has a device, those of partners
     * are made by the join. */
    bool on_demand, partners;
    /* Of the trees of nodes, and of ranks of large nodes, over which the watch's connections go; 0:
     * all go to rank 0, and no node is large. */
    uint32_t fan_out;
    uint8_t session_key[32]; /* HKDF(job's key, the nonce): for the epoch's connections */
    /* Of connections that are made anew and of members that agree: the session key of the job's
     * first epoch. */
    uint8_t members_key[32];
    int listener;               /* at the address of member[rank], for these; -1: there is none */
    struct gyre_member *member; /* n */
    struct gyre_peer *peer;     /* n; [rank] is empty */
};

static inline bool gyre_joined_is_step(uint32_t distance)
{
    const uint32_t third = distance % 3 == 0 ? distance / 3 : 0;
    return (distance & (distance - 1)) == 0 ||
           (third != 0 && (third & (third - 1)) == 0 && (third & 0x55555555u) != 0);
}

/* Whether two ranks are partners: those that algorithms bring together in a whole job, 2^k (ring,
 * trees, doubling, halving) or 3 · 4^k (knomial) apart around the ring of ranks. A rank has at most
 * 3 log₂ n of them. */
static inline bool gyre_joined_are_partners(uint32_t n, uint32_t a, uint32_t b)
{
    const uint32_t apart = (a + n - b) % n;
    return gyre_joined_is_step(apart) || gyre_joined_is_step(n - apart);
}

/* Whether the join makes the connections between two ranks of different nodes. */
static inline bool gyre_joined_connects(const struct gyre_joined *joined, uint32_t a, uint32_t b)
{
    return !joined->on_demand || (joined->partners && gyre_joined_are_partners(joined->n, a, b));
}

/* How many nodes are below one, in a job of more nodes than GYRE_LINKS_AT_ONCE or with a large
 * node, and how many ranks below one in a large node. A thousand are three floors. */
#define GYRE_WATCH_FAN_OUT 16u

/* Who is above another one in a tree: of nodes in the order of their numbers, or of ranks of a node
 * in the order of their places. `below` > 0. */
static inline uint32_t gyre_joined_above(uint32_t below, uint32_t fan_out)
{
    return (below - 1) / fan_out;
}

/* Makes the result: all descriptors are -1 and all members zeros. NULL: no memory. */
struct gyre_joined *gyre_joined_create(uint32_t rank, uint32_t n);

/* Closes every descriptor that is still ≥ 0. NULL allowed. */
void gyre_joined_destroy(struct gyre_joined *joined);

#endif
