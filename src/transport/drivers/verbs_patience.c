/* What comes to nothing without a word. A device that works ends every request, also where nobody
 * answers (verbs_fault.c); this is for one that does not, and for ranks that only receive.
 *
 *     seen for the dead time                        then
 *     the port is down, since an event said so      every pipe breaks with -ENETDOWN
 *     or the device does not tell its state         every pipe breaks with -ENODEV
 *     a request that asked for an answer, and       that pipe breaks with GYRE_PEER_LOST
 *     none of the pipe's has come
 *
 * It is looked at PARTS times in a dead time, and looks are counted, not time: who was stopped, and
 * then finds answers of an hour ago, has looked once. */
#include "transport/drivers/verbs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#define PARTS 16

int gyre_verbs_port_state(const struct gyre_verbs_wire *wire, const char **words)
{
    struct ibv_port_attr port = {.state = IBV_PORT_NOP};
    if (ibv_query_port(wire->context, wire->port.number, &port)) {
        *words = "not to be asked";
        return -ENODEV;
    }
    *words = ibv_port_state_str(port.state);
    return port.state == IBV_PORT_ACTIVE ? 0 : -ENETDOWN;
}

void gyre_verbs_break_all(struct gyre_verbs_wire *wire, int status, const char *what)
{
    for (uint32_t i = 0; i < wire->most; i++)
        if (wire->pipe[i] && !gyre_verbs_pipe_parted(wire->pipe[i]))
            gyre_verbs_break(wire->pipe[i], status, what);
}

static void judge_port(struct gyre_verbs_wire *wire)
{
    const char *words;
    char text[160];
    int status = gyre_verbs_port_state(wire, &words);
    wire->doubtful = status != 0;
    wire->doubts = status ? wire->doubts + 1 : 0;
    if (wire->doubts <= PARTS)
        return;
    snprintf(text, sizeof text, "this rank's port is %s, and has been of no use for %.1f s", words,
             (double)wire->dead_ns / 1e9);
    gyre_verbs_break_all(wire, status, text);
}

static void judge_pipe(struct gyre_verbs_pipe *pipe)
{
    const char *words;
    char text[200];
    bool waits = pipe->signals != pipe->signals_done && pipe->answers == pipe->signals_done;
    pipe->answers = pipe->signals_done;
    pipe->unanswered = waits ? pipe->unanswered + 1 : 0;
    if (pipe->unanswered <= PARTS || gyre_verbs_pipe_parted(pipe))
        return;
    int status = gyre_verbs_port_state(pipe->wire, &words);
    snprintf(text, sizeof text,
             "neither an answer nor an error for %.1f s, which is the device's task to tell; this "
             "rank's port is %s",
             (double)pipe->wire->dead_ns / 1e9, words);
    gyre_verbs_break(pipe, status ? status : GYRE_PEER_LOST, text);
}

void gyre_verbs_lose_patience(struct gyre_verbs_wire *wire, uint64_t now)
{
    if (!wire->dead_ns || now - wire->judged < wire->dead_ns / PARTS)
        return;
    wire->judged = now;
    if (wire->doubtful)
        judge_port(wire);
    for (uint32_t i = 0; i < wire->most; i++)
        if (wire->pipe[i] && !wire->pipe[i]->broken)
            judge_pipe(wire->pipe[i]);
}
