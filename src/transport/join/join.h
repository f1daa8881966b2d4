/* From "I am rank 2 of job X" to authenticated channels to every peer: rendezvous, handshake, mesh.
 *
 * Rank 0 listens at the job's root address. Everybody joins there, proves the key (transport/net/handshake.h),
 * tells what a peer needs to know (struct gyre_member) and receives the roster of all. Then each
 * pair meets: over an abstract Unix socket where both are on one machine and may share memory, over
 * TCP otherwise. Rank 0 gathers which pairs can share memory and hands the resulting nodes to all,
 * so every rank has the same picture. */
#ifndef GYRE_TRANSPORT_JOIN_JOIN_H
#define GYRE_TRANSPORT_JOIN_JOIN_H

#include "transport/job/job.h"

#include <sys/socket.h>

#define GYRE_TCP_CONNECTIONS_MAX 8

struct gyre_member { /* of the roster; the same on every rank */
    char host[64];
    int32_t pid;
    uint8_t device[16]; /* UUID of its CUDA device; zeros: it has none */
    int32_t local_rank; /* place within the node, counted by rank after the nodes are known */
    uint32_t node;      /* nodes are numbered by their lowest rank */
    struct sockaddr_storage address; /* where this rank's data listener is reached */
};

/* This rank's channels to one peer; -1 where there is none. Owned by whoever holds the struct. */
struct gyre_peer {
    int unix_fd; /* SOCK_SEQPACKET, same node only: regions and the watch's messages */
    int pidfd;   /* same node only: the peer's process */
    int tcp[GYRE_TCP_CONNECTIONS_MAX]; /* data connections, same order on both sides */
    int tcps;
    int control; /* rank 0 to each rank and back: the rendezvous connection, kept for the watch */
};

struct gyre_join_options {
    const char *transport; /* "auto": shm inside nodes; "shm": or fail; "tcp", "verbs": no node has
                              two ranks */
    int join_timeout_ms;   /* until all ranks are there */
    int dead_time_ms;      /* keepalive and TCP_USER_TIMEOUT; 0: no limit (debuggers) */
    int connections;       /* data connections per TCP peer, 1 … 8 */
    const char *interface; /* GYRE_INTERFACE: names, addresses, CIDR; NULL: the route to the root */
    uint16_t port_low, port_high;   /* range for listeners; 0, 0: any */
    uint8_t device[16];             /* UUID of this rank's CUDA device; zeros: none */
    uint64_t configuration;         /* hash of every setting that must be equal on all ranks */
    const char *configuration_text; /* NAME=VALUE words; those that differ are printed */
};

struct gyre_joined {
    uint32_t rank, n;
    uint32_t nodes, node, local_rank, local_size;
    uint8_t session_key[32];    /* HKDF(job's key, rank 0's nonce): for the epoch's connections */
    struct gyre_member *member; /* n */
    struct gyre_peer *peer;     /* n; [rank] is empty */
};

/* Whether this transport keeps ranks of one machine apart: "tcp", "verbs". */
bool gyre_join_apart(const char *transport);

/* Blocks until all ranks are joined. The rendezvous takes at most the join timeout (plus 1 s for an
 * orderly refusal), each of the two phases after it at most 1.5 dead times, counted as 2 s or more.
 * A world of 1 joins at once without any socket. All descriptors are non-blocking and
 * close-on-exec; nothing but the channels is left, and on failure nothing is held. GYRE_REFUSED,
 * GYRE_TIMED_OUT (missing ranks named), GYRE_PEER_LOST (a rank went away while joining),
 * GYRE_UNSUPPORTED (not all can share memory), GYRE_INVALID, GYRE_CORRUPT, -errno. */
int gyre_join(const struct gyre_job *job, const struct gyre_join_options *options,
              struct gyre_joined **joined, struct gyre_trouble *trouble);

/* Closes every descriptor that is still ≥ 0. NULL allowed. */
void gyre_joined_destroy(struct gyre_joined *joined);

#endif
