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
    struct sockaddr_storage address; /* address of this rank's data listener */
};

/* This rank's channels to one peer; -1: none. The owner of the struct owns the descriptors. */
struct gyre_peer {
    /* SOCK_SEQPACKET, same node only: regions and the watch's messages. In a large node only
     * between the lowest rank and each other. */
    int unix_fd;
    int pidfd; /* with unix_fd: the peer's process */
    /* Data connections, same order on both sides; -1 where they are made at their first use. */
    int tcp[GYRE_TCP_CONNECTIONS_MAX];
    int tcps;
    struct gyre_traffic_keys tcp_keys[GYRE_TCP_CONNECTIONS_MAX]; /* of each data connection */
    bool one_machine; /* with data connections: the peer runs on this machine, as nodes see it */
    int control; /* rank 0 to each rank and back: the rendezvous connection, kept for the watch */
    struct gyre_traffic_keys control_keys;
};

struct gyre_joined {
    uint32_t rank, n;
    uint32_t nodes, node, local_rank, local_size;
    /* This node is large: its ranks share the memory of `node_file`, for `places` ranks
     * (transport/memory/node_memory.h), and each has met the lowest only. -1: not. */
    bool large;
    int node_file;
    uint32_t places;
    /* Data connections are made at their first use (transport/watch/renew.h): the job has more
     * ranks than connect at once, and every rank can. */
    bool on_demand;
    uint8_t session_key[32]; /* HKDF(job's key, the nonce): for the epoch's connections */
    /* Of connections that are made anew and of members that agree: the session key of the job's
     * first epoch. */
    uint8_t members_key[32];
    int listener;               /* at the address of member[rank], for these; -1: there is none */
    struct gyre_member *member; /* n */
    struct gyre_peer *peer;     /* n; [rank] is empty */
};

/* Makes the result: all descriptors are -1 and all members zeros. NULL: no memory. */
struct gyre_joined *gyre_joined_create(uint32_t rank, uint32_t n);

/* Closes every descriptor that is still ≥ 0. NULL allowed. */
void gyre_joined_destroy(struct gyre_joined *joined);

#endif
