/* Messages from rank to rank: send, receive, and the blocks of an all_to_all_v.
 *
 * A message is named by its communicator, its direction, its tag, and its number among the messages
 * of that tag of the two ranks. So any number may be pending, and ranks need not agree on an order
 * between pairs or tags. A message carries its type and count, and both ends must mean the same.
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MESSAGES_POINT_TO_POINT_H
#define GYRE_COLLECTIVES_MESSAGES_POINT_TO_POINT_H

#include "collectives/messages/message.h"
#include "transport/domain/domain.h"
#include "transport/link/links.h"

#include <gyre/gyre.h>

struct gyre_point_to_point;

struct gyre_message_terms {
    uint32_t peer; /* its rank in the communicator; with `any`, GYRE_MESSAGE_ANYONE, too */
    bool send;
    void *data; /* a send only reads it */
    enum gyre_memory_kind kind;
    uint64_t count;
    enum gyre_type type;
    uint32_t tag;
    bool any; /* a receive of the first such message that comes, of at most `count` elements */
    struct gyre_received *received; /* NULL: nothing to tell */
};

/* The ranks of step d, 1 … n-1, of an all_to_all_v: the one that gets this rank's block, and the
 * one whose block this rank gets. */
static inline uint32_t gyre_p2p_to(uint32_t rank, uint32_t n, uint32_t d)
{
    return (rank + d) % n;
}

static inline uint32_t gyre_p2p_from(uint32_t rank, uint32_t n, uint32_t d)
{
    return (rank + n - d) % n;
}

/* Makes the messages of a communicator. -ENOMEM. */
int gyre_p2p_create(const struct gyre_message_route *route, struct gyre_point_to_point **p2p);
void gyre_p2p_destroy(struct gyre_point_to_point *p2p); /* NULL allowed */

/* Starts a message, which is posted when its link has room. A message to another rank that is not
 * over when the call returns needs gyre_p2p_run(). NULL: there is no memory, or the device is lost;
 * the reason is in the thread's trouble. */
struct gyre_message *gyre_p2p_start(struct gyre_point_to_point *p2p,
                                    const struct gyre_message_terms *terms);

/* Sends or receives the whole message if its link does so at once. False: the caller starts it.
 * NULL allowed. */
bool gyre_p2p_run_now(struct gyre_point_to_point *p2p, const struct gyre_message_terms *terms);

/* Looks, before posting, for messages that were started and not posted. 0: all have come;
 * GYRE_AGAIN: some have not, in `looks` looks; -ENOENT: some must be posted. NULL allowed: 0. */
int gyre_p2p_look(struct gyre_point_to_point *p2p, uint32_t looks);

/* Starts one block of operation `op`, which ends (gyre_engine_finish) when its last block has. */
int gyre_p2p_add_block(struct gyre_point_to_point *p2p, struct gyre_operation *op,
                       const struct gyre_message_terms *terms);

/* Tells the caller what has come, where that was asked, and frees a message that has ended. */
void gyre_p2p_release(struct gyre_point_to_point *p2p, struct gyre_message *message);

/* Ends a send to the own rank that has not been received yet: the message goes on from a copy. */
int gyre_p2p_detach_own(struct gyre_point_to_point *p2p, struct gyre_message *message);

/* Withdraws a receive from the own rank that no send has met. */
void gyre_p2p_withdraw_own(struct gyre_point_to_point *p2p, struct gyre_message *message);

/* Functions for the progress engine. NULL allowed, except in complete(). */
bool gyre_p2p_run(struct gyre_point_to_point *p2p);
bool gyre_p2p_idle(const struct gyre_point_to_point *p2p);
void gyre_p2p_complete(struct gyre_point_to_point *p2p, const struct gyre_completion *done);
void gyre_p2p_fail(struct gyre_point_to_point *p2p, int status);

/* Notes a refused message. Its other end may wait for it. */
void gyre_p2p_refuse(struct gyre_point_to_point *p2p, const char *why);

/* The number of messages sent minus the number received, by this rank. NULL allowed: 0. */
int64_t gyre_p2p_balance(const struct gyre_point_to_point *p2p);

/* Marks messages as what a thread waits for. */
void gyre_p2p_focus(struct gyre_point_to_point *p2p);

/* Ends the watch's attention to messages. NULL allowed. */
void gyre_p2p_withdraw(struct gyre_point_to_point *p2p);

#endif
