/* Messages of a communicator: started, and waited for.
 *
 * A blocking send ends when its buffer may be written again, which may be before the other end has
 * called. A send to the own rank goes on from a copy. A receive from the own rank must find its
 * message there, because no other rank can send it.
 *
 * Tested by tests/program/collectives/point_to_point.c. */
#include "collectives/comm/message_wait.h"

#include "collectives/comm/progress.h"

struct gyre_message *gyre_message_start(struct gyre_comm *comm,
                                        const struct gyre_message_terms *terms)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    trouble->status = 0; /* of an earlier call */
    if (gyre_progress_add_messages(comm, trouble))
        return NULL;
    struct gyre_message *message = gyre_p2p_start(comm->p2p, terms);
    if (message && message->status == GYRE_AGAIN && message->peer != comm->rank)
        gyre_progress_drive(comm);
    return message;
}

/* Ends a message to or from the own rank. No other rank can bring it: the caller would wait for
 * ever. */
static int end_own(struct gyre_comm *comm, struct gyre_message *message)
{
    if (message->send)
        return gyre_p2p_detach_own(comm->p2p, message);
    uint32_t tag = message->tag;
    gyre_p2p_withdraw_own(comm->p2p, message);
    return gyre_refuse("gyre_recv: rank %u has sent nothing to itself that it could receive%s",
                       comm->rank, tag ? " with that tag" : "");
}

int gyre_message_end(struct gyre_comm *comm, struct gyre_message *message)
{
    if (message->peer == comm->rank && message->status == GYRE_AGAIN)
        return end_own(comm, message);
    int status = gyre_progress_await(comm->progress, &message->status);
    gyre_p2p_release(comm->p2p, message);
    return status;
}

bool gyre_message_waits_for_itself(const struct gyre_started *started)
{
    const struct gyre_message *message = started->message;
    return message && message->peer == started->comm->rank && message->status == GYRE_AGAIN;
}

int gyre_message_take(struct gyre_started *started)
{
    struct gyre_comm *comm = started->comm;
    struct gyre_message *message = started->message;
    int status = message->status;
    gyre_work_free(&comm->work, started);
    gyre_p2p_release(comm->p2p, message);
    return status;
}
