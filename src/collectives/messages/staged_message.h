/* Staged messages: how a message travels whose bytes are not simply where its link takes and leaves
 * them.
 *
 *     a device's   ──copy──▶ slot ──▶ link        link ──▶ slot ──copy──▶   a device's
 *     the host's   ─────────────────▶ link        link ─────────────────▶   the host's
 *
 * A long message between ranks of which one has a CUDA device is cut into pieces. Up to four
 * staging slots carry them in turn, so one is at the copy engine while another is on the link, and
 * what a message takes of pinned memory is four pieces, whatever its length. Both ends cut alike:
 * to another node always, inside one where the sender says that its bytes cannot be read where they
 * lie. Where its memory lies is each end's own affair.
 *
 * A short message that lies where its link cannot serve it has one staging slot, for all of it.
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MESSAGES_STAGED_MESSAGE_H
#define GYRE_COLLECTIVES_MESSAGES_STAGED_MESSAGE_H

#include "collectives/messages/message.h"

struct gyre_trouble;

/* Idle ones, with their memory. Zeroed: none. */
struct gyre_staged_pool {
    struct gyre_staged_message *first;
    uint32_t count;
};

/* Stages the message if it needs that: message->staged_message is NULL otherwise. -ENOMEM, or what
 * has become of the device. */
int gyre_staged_make(const struct gyre_message_route *route, struct gyre_staged_pool *pool,
                     struct gyre_message *message, struct gyre_trouble *trouble);

/* Moves what can be moved, with at most `most` posts at the link, which *posted counts. Returns 1
 * if anything moved, 0, or what the link has refused a post with. */
int gyre_staged_run(const struct gyre_message_route *route, const struct gyre_message *message,
                    uint32_t *posted, uint32_t most);

/* The link has done with the staging slot of this number. */
void gyre_staged_complete(const struct gyre_message *message, uint32_t slot);

/* All pieces are where they belong. */
bool gyre_staged_over(const struct gyre_message *message);

/* Gives its staging back; none: nothing. No work uses its memory any more. */
void gyre_staged_drop(const struct gyre_message_route *route, struct gyre_staged_pool *pool,
                      struct gyre_message *message);

/* Frees what the pool holds. */
void gyre_staged_deinit(const struct gyre_message_route *route, struct gyre_staged_pool *pool);

#endif
