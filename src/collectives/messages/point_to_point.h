/* Messages from rank to rank: send, receive, and the blocks of an all_to_all_v.
 *
 * A message is named by its communicator, its direction and its number among those of the two
 * ranks, so any number may be pending and ranks need not agree on an order between pairs. It tells
 * type and count, and both ends must mean the same. All calls: owner. */
#ifndef GYRE_COLLECTIVES_MESSAGES_POINT_TO_POINT_H
#define GYRE_COLLECTIVES_MESSAGES_POINT_TO_POINT_H

#include "collectives/engine/engine.h"

struct gyre_comm;
struct gyre_point_to_point;
struct gyre_staged_message;
struct gyre_message;

/* One message at one end. Lives in the communicator's pool until it is given back. */
struct gyre_message {
    struct gyre_message *next; /* in its queue, or of the free ones */
    struct gyre_operation *op; /* it is a part of; NULL: it stands alone */
    void *data;
    void *copy;                                 /* of a blocking send to itself */
    struct gyre_staged_message *staged_message; /* NULL: the link takes it as it is */
    uint64_t bytes;
    struct gyre_match match;
    uint32_t peer, index;
    bool send;
    _Atomic int status; /* GYRE_AGAIN while under way */
};

struct gyre_message_terms {
    uint32_t peer; /* the communicator's */
    bool send;
    void *data; /* read only, of a send */
    uint64_t count;
    enum gyre_type type;
};

/* Step d, 1 … n-1, of an all_to_all_v: who gets this rank's block, and whose block this rank gets. */
static inline uint32_t gyre_p2p_to(uint32_t rank, uint32_t n, uint32_t d)
{
    return (rank + d) % n;
}

static inline uint32_t gyre_p2p_from(uint32_t rank, uint32_t n, uint32_t d)
{
    return (rank + n - d) % n;
}

/* Starts a message: it is posted when its link has room. NULL: no memory, or the device is lost;
 * the thread's trouble tells. */
struct gyre_message *gyre_p2p_start(struct gyre_comm *comm, const struct gyre_message_terms *terms);

/* The whole message, where its link brings it at once. False: start it. */
bool gyre_p2p_run_now(struct gyre_comm *comm, const struct gyre_message_terms *terms);

/* Before those that were started and not posted are: have they come? 0: all; GYRE_AGAIN: some not,
 * `looks` times; -ENOENT: some must be posted. */
int gyre_p2p_look(struct gyre_comm *comm, uint32_t looks);

/* Starts one block of operation `op`, which ends (gyre_engine_finish) when its last block has. */
int gyre_p2p_add_block(struct gyre_comm *comm, struct gyre_operation *op,
                       const struct gyre_message_terms *terms);

void gyre_p2p_release(struct gyre_comm *comm, struct gyre_message *message); /* ended */

/* A send to the own rank that nobody has received yet goes on from a copy, and has ended. */
int gyre_p2p_detach_own(struct gyre_comm *comm, struct gyre_message *message);

/* A receive from the own rank that nothing was sent for was never called. */
void gyre_p2p_withdraw_own(struct gyre_comm *comm, struct gyre_message *message);

/* Of a post of it, or of one staging slot. */
uint64_t gyre_message_token(const struct gyre_comm *comm, const struct gyre_message *message,
                            uint32_t slot);

/* For the progress engine. */
bool gyre_p2p_run(struct gyre_comm *comm);
bool gyre_p2p_idle(const struct gyre_comm *comm);
void gyre_p2p_complete(struct gyre_comm *comm, const struct gyre_completion *done);
void gyre_p2p_fail(struct gyre_comm *comm, int status);

/* A message was refused: its other end may wait for it. */
void gyre_p2p_refuse(struct gyre_comm *comm, const char *why);

/* Messages sent less messages received, by this rank. */
int64_t gyre_p2p_balance(const struct gyre_comm *comm);
void gyre_p2p_focus(struct gyre_comm *comm);    /* a thread waits for messages */
void gyre_p2p_withdraw(struct gyre_comm *comm); /* the watch hears no more of them */
void gyre_p2p_destroy(struct gyre_comm *comm);

#endif
