/* The records by which ranks join: identities, failures, the division into nodes.
 *
 * Every function but gyre_identity_gather() works on bytes and structs alone. */
#ifndef GYRE_TRANSPORT_JOIN_IDENTITY_H
#define GYRE_TRANSPORT_JOIN_IDENTITY_H

#include "transport/job/job.h"
#include "transport/join/joined.h"
#include "transport/net/address.h"
#include "transport/net/talk.h"

#define GYRE_JOIN_SPACES   4 /* namespaces compared: net, user, mnt, pid */
#define GYRE_JOIN_TEXT_MAX GYRE_TROUBLE_MAX

/* A rank's facts about itself. After the roster every rank has those of all ranks. */
struct gyre_rank_identity {
    char host[64];
    int32_t pid;
    uint32_t uid;
    uint8_t boot[16];                 /* of the running kernel: equal means one machine */
    uint64_t space[GYRE_JOIN_SPACES]; /* inode of each namespace, 0 unknown */
    int32_t simulated;                /* the node that --simulate-nodes gives, -1 */
    uint8_t door[16];                 /* name of its abstract Unix socket; zeros: none */
    uint8_t device[16];               /* UUID of its CUDA device; zeros: none */
    uint8_t channels;                 /* enum gyre_join_channels */
    struct sockaddr_storage outward;  /* where its data listener should be; port 0 */
};

/* Asks the operating system for everything but `device` and `outward`, which stay zeros. */
int gyre_identity_gather(const struct gyre_job *job, struct gyre_rank_identity *identity);

size_t gyre_identity_bytes(void); /* size of an encoded identity */
void gyre_identity_put(struct gyre_cursor *cursor, const struct gyre_rank_identity *identity);
void gyre_identity_get(struct gyre_cursor *cursor, struct gyre_rank_identity *identity);

/* Whether two ranks run on one machine and on one simulated node. */
bool gyre_identity_one_machine(const struct gyre_rank_identity *a,
                               const struct gyre_rank_identity *b);

/* The ranks of a roster of n that run on one machine with a rank, itself included. */
struct gyre_machine {
    uint32_t lowest, ranks;
};
struct gyre_machine gyre_identity_machine(const struct gyre_rank_identity *identity, uint32_t n,
                                          uint32_t rank);

/* Lists the ranks of a rank's machine that are above it in a tree of them, GYRE_WATCH_FAN_OUT below
 * each: from the next above to the lowest. Returns their number. */
#define GYRE_JOIN_FLOORS 8 /* more than a tree of 2²⁰ ranks has */
uint32_t gyre_identity_ranks_above(const struct gyre_rank_identity *identity, uint32_t n,
                                   uint32_t rank, uint32_t above[GYRE_JOIN_FLOORS]);

/* Writes the namespaces and users in which two ranks of one machine differ. */
void gyre_identity_difference(const struct gyre_rank_identity *a,
                              const struct gyre_rank_identity *b, char *out, size_t size);

struct gyre_story { /* payload of a FAILURE */
    int32_t status;
    bool echo; /* a broken connection, whose cause may lie elsewhere */
    char text[GYRE_JOIN_TEXT_MAX];
};
#define GYRE_STORY_BYTES (4 + 4 + 2 + GYRE_JOIN_TEXT_MAX) /* encoded, at most */
size_t gyre_story_encode(const struct gyre_story *story, uint8_t out[GYRE_STORY_BYTES]);
int gyre_story_decode(const struct gyre_record *record, struct gyre_story *story);

/* Completes the matrix of pairs, n × n bytes, for machines of more than `most` ranks, where each
 * has met a lower one only: who shares memory with the lowest, or with one that does, shares it
 * with all that do. */
void gyre_nodes_share_by_lowest(const struct gyre_rank_identity *identity, uint32_t n,
                                uint32_t most, uint8_t *share);

/* Divides ranks into nodes. Each rank joins a lower rank's node if it shares memory with every rank
 * of that node, or opens a new one. `share` is a symmetric matrix of n × n bytes. Nodes are
 * numbered by their lowest rank. Returns the number of nodes. */
uint32_t gyre_nodes_assign(uint32_t n, const uint8_t *share, uint32_t *node);

#endif
