/* How a pipe breaks, and what its failure says: both GIDs, both queue pairs, the cause, this side's
 * port, and how often the device tries.
 *
 *     cause                                     seen by           status of the pipe
 *     a request fails                           completions.c     GYRE_PEER_LOST, -ENETDOWN, -EIO
 *     the device's queue of completions fails   events.c          -EIO, every pipe over it
 *     the device has gone                       events.c          -ENODEV, every pipe over it
 *     the socket ends                           events.c          GYRE_PEER_LOST
 *     nothing at all                            timeouts.c        as the port is
 *
 * A failed pipe's queue pairs go to their error state, so that the peer cannot write any more. The
 * socket stays open until detach(): its end would look like a death, and be told before the cause.
 * With GYRE_RDMA_FAILOVER=tcp a broken pipe goes on over its socket instead (tcp_fallback.c). */
#include "transport/link/verbs/peer.h"

#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

static const char *describe(const struct gyre_verbs_queue *queue, const char *what,
                            char text[GYRE_VERBS_STORY])
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    gyre_verbs_gid_name(queue->mine.gid, here);
    gyre_verbs_gid_name(queue->theirs.gid, there);
    snprintf(text, GYRE_VERBS_STORY,
             "verbs link from rank %u to rank %u (%s, GID %s, queue pair %u to GID %s, "
             "queue pair %u): %s",
             pipe->end.rank, pipe->end.peer, queue->card->name, here, queue->mine.number, there,
             queue->theirs.number, what);
    return text;
}

#define TRY_S (4.096e-6 * (1 << GYRE_VERBS_TIMEOUT_CODE)) /* the least time for an answer */

static const char *add_circumstances(const struct gyre_verbs_queue *queue, const char *what,
                                     char text[GYRE_VERBS_STORY])
{
    const char *port;
    gyre_verbs_port_state(queue->card, &port);
    snprintf(text, GYRE_VERBS_STORY,
             "%s; this rank's port is %s; tries: %d of %.2f s or more, %d for a receive", what,
             port, GYRE_VERBS_TRIES + 1, TRY_S, GYRE_VERBS_TRIES + 1);
    return text;
}

void gyre_verbs_refuse(struct gyre_verbs_queue *queue, const char *what)
{
    if (!queue->refused[0])
        snprintf(queue->refused, sizeof queue->refused, "%s", what);
}

void gyre_verbs_fail(struct gyre_verbs_queue *queue, int status, const char *what)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    char story[GYRE_VERBS_STORY];
    if (!queue->proven)
        gyre_verbs_refuse(queue, what);
    if (!queue->proven || pipe->end.status)
        return;
    pipe->broken = true;
    gyre_trouble_set(&pipe->end.trouble, status, "%s", describe(queue, what, story));
    gyre_verbs_queue_stop_all(pipe);
    gyre_end_fail(&pipe->end, status);
    gyre_verbs_mark(pipe);
}

void gyre_verbs_fail_stream(struct gyre_verbs_pipe *pipe, int status)
{
    char copy[128], text[256];
    const char *other = "what came is not what the peer sent: check that both run the same version";
    snprintf(copy, sizeof copy, "a message of a device's memory could not be copied: %s",
             gyre_status_name(status));
    if (status == -ENOMEM)
        other = "no memory for a message on its way from or to a device";
    else if (status != GYRE_CORRUPT)
        other = copy;
    gyre_verbs_fail(pipe->queue, status, gyre_end_refusal(&pipe->end, 0, status, other, text));
}

/* -- breaking ---------------------------------------------------------------------------------- */

static void begin_fallback(struct gyre_verbs_pipe *pipe, int status)
{
    pipe->fallback =
        (struct gyre_verbs_tcp_fallback){.state = GYRE_VERBS_BREAKING, .status = status};
    pipe->broken = true;
    pipe->wire->fallbacks++;
    gyre_verbs_queue_stop_all(pipe);
}

void gyre_verbs_break(struct gyre_verbs_queue *queue, int status, const char *what)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    char story[GYRE_VERBS_STORY], text[GYRE_VERBS_STORY];
    if (pipe->end.status || pipe->fallback.state)
        return;
    if (queue->proven)
        what = add_circumstances(queue, what, text);
    if (!pipe->falls_back || !queue->proven) {
        gyre_verbs_fail(queue, status, what);
        return;
    }
    begin_fallback(pipe, status);
    gyre_log(GYRE_LOG_WARN, "%s; it goes on over TCP for the rest of the job",
             describe(queue, what, story));
}

void gyre_verbs_flush(struct gyre_verbs_queue *queue)
{
    int refusal = gyre_verbs_queue_flush(queue);
    if (refusal)
        gyre_verbs_break(queue, -refusal, "the device takes no more requests");
}

static void break_those_on(const struct gyre_verbs_pipe *pipe, const struct gyre_verbs_card *card,
                           int status, const char *what)
{
    for (uint32_t i = 0; i < pipe->ways; i++)
        if (pipe->way[i]->card == card)
            gyre_verbs_break(pipe->way[i], status, what);
}

void gyre_verbs_break_all(struct gyre_verbs_wire *wire, const struct gyre_verbs_card *card,
                          int status, const char *what)
{
    for (uint32_t i = 0; i < wire->most; i++)
        if (wire->pipe[i] && !gyre_end_parted(&wire->pipe[i]->end))
            break_those_on(wire->pipe[i], card, status, what);
}
