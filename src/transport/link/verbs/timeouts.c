/* What neither answers nor fails. A device that works ends every request, even where nobody answers
 * (completions.c). Timeouts are for a device that does not work, and for ranks that only receive.
 *
 *     seen for the dead time                           consequence
 *     the port is down, since an event said so         what is on it breaks with -ENETDOWN
 *     the device does not tell the state of its port   what is on it breaks with -ENODEV
 *     a request asked for an answer, and none of       that pipe breaks with GYRE_PEER_LOST
 *     the pipe's has come
 *
 * The driver looks PARTS times in a dead time, and counts looks, not time: a process that was
 * stopped, and then finds answers of an hour ago, has looked once.
 * Tested by tests/unit/transport/link/verbs/fault_test.c. */
#include "transport/link/verbs/peer.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#define PARTS 16

static void check_port(struct gyre_verbs_wire *wire, struct gyre_verbs_card *card)
{
    const char *words;
    char text[160];
    int status = gyre_verbs_port_state(card, &words);
    card->doubtful = status != 0;
    card->doubts = status ? card->doubts + 1 : 0;
    if (card->doubts <= PARTS)
        return;
    snprintf(text, sizeof text, "its port has been of no use for %.1f s",
             (double)wire->dead_ns / 1e9);
    gyre_verbs_break_all(wire, card, status, text);
}

static void check_queue(struct gyre_verbs_queue *queue)
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    const char *words;
    char text[200];
    bool waits = queue->signals != queue->signals_done && queue->answers == queue->signals_done;
    queue->answers = queue->signals_done;
    queue->unanswered = waits ? queue->unanswered + 1 : 0;
    if (queue->unanswered <= PARTS || gyre_end_parted(&pipe->end))
        return;
    int status = gyre_verbs_port_state(queue->card, &words);
    snprintf(text, sizeof text,
             "neither an answer nor an error for %.1f s, which is the device's task to tell",
             (double)pipe->wire->dead_ns / 1e9);
    gyre_verbs_break(queue, status ? status : GYRE_PEER_LOST, text);
}

static void check_pipe(struct gyre_verbs_pipe *pipe)
{
    for (uint32_t i = 0; i < pipe->ways && !pipe->broken; i++)
        check_queue(pipe->way[i]);
}

void gyre_verbs_check_timeouts(struct gyre_verbs_wire *wire, uint64_t now)
{
    if (!wire->dead_ns || now - wire->timeouts_checked < wire->dead_ns / PARTS)
        return;
    wire->timeouts_checked = now;
    for (uint32_t i = 0; i < wire->cards; i++)
        if (wire->card[i].doubtful)
            check_port(wire, &wire->card[i]);
    for (uint32_t i = 0; i < wire->most; i++)
        if (wire->pipe[i] && !wire->pipe[i]->broken)
            check_pipe(wire->pipe[i]);
}
