/* Staged messages: messages whose link cannot take or leave the bytes in their own memory.
 *
 *     a device's   ──copy──▶ slot ──▶ link        link ──▶ slot ──copy──▶   a device's
 *     the host's   ─────────────────▶ link        link ─────────────────▶   the host's
 *
 * A long message between ranks of which one has a CUDA device is cut into pieces. Up to four
 * staging slots carry the pieces in turn, so one slot is at the copy engine while another is on the
 * link. A message takes pinned memory for four pieces, whatever its length. Both ends cut alike: to
 * another node always, inside a node where the sender says that its bytes cannot be read in place.
 * Neither end has to know where the other's memory lies.
 *
 * A short message in memory that its link cannot serve has one staging slot, for the whole. So has
 * a long one inside a node that a window on the device takes.
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MESSAGES_STAGED_MESSAGE_H
#define GYRE_COLLECTIVES_MESSAGES_STAGED_MESSAGE_H

#include "collectives/messages/message.h"

struct gyre_trouble;

/* Idle structs, with their memory. Zeroed: none. */
struct gyre_staged_pool {
    struct gyre_staged_message *first;
    uint32_t count;
};

/* Stages the message if it needs staging; otherwise message->staged_message is NULL. -ENOMEM, or
 * the status of the device. */
int gyre_staged_make(const struct gyre_message_route *route, struct gyre_staged_pool *pool,
                     struct gyre_message *message, struct gyre_trouble *trouble);

/* Moves everything that can move, with at most `most` posts at the link, which *posted counts.
 * Returns 1 if anything moved, 0, or the status with which the link has refused a post. */
int gyre_staged_run(const struct gyre_message_route *route, const struct gyre_message *message,
                    uint32_t *posted, uint32_t most);

/* Takes the completion of the staging slot of this number. */
void gyre_staged_complete(const struct gyre_message *message, uint32_t slot);

/* Whether all pieces are in their places. */
bool gyre_staged_over(const struct gyre_message *message);

/* Gives the message's window back, if it has one. The communicator has its windows still. */
void gyre_staged_give_window(const struct gyre_message *message);

/* Returns the message's staging to the pool; without staging does nothing. No work uses its memory
 * any more. */
void gyre_staged_drop(const struct gyre_message_route *route, struct gyre_staged_pool *pool,
                      struct gyre_message *message);

/* Frees the structs of the pool. */
void gyre_staged_deinit(const struct gyre_message_route *route, struct gyre_staged_pool *pool);

#endif
