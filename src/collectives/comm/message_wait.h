/* Messages of a communicator: started, and waited for. */
#ifndef GYRE_COLLECTIVES_COMM_MESSAGE_WAIT_H
#define GYRE_COLLECTIVES_COMM_MESSAGE_WAIT_H

#include "collectives/comm/communicator.h"
#include "collectives/messages/point_to_point.h"

/* Starts a message, which progress then drives. NULL: the reason is in the thread's trouble.
 * Owner. */
struct gyre_message *gyre_message_start(struct gyre_comm *comm,
                                        const struct gyre_message_terms *terms);

/* Waits for a message and frees it. Owner. */
int gyre_message_end(struct gyre_comm *comm, struct gyre_message *message);

/* Whether the work is a message between the own rank and itself whose other end has not been
 * called. No other rank can bring it. Owner. */
bool gyre_message_waits_for_itself(const struct gyre_started *started);

/* Spends the handle of a message that is over and returns the status. Owner. */
int gyre_message_take(struct gyre_started *started);

#endif
