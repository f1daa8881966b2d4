/* What sockets and devices say beside completions.
 *
 *     the device has failed, or its queue of completions     every pipe over it breaks
 *     the port has gone down                                 timeouts.c looks how long
 *     the socket has bytes                                   the other end goes on over TCP
 *     the socket has ended                                   a hangup
 *
 * A socket ends with its peer's process. The end counts once all completions have been read and
 * END_NS have passed: what the peer wrote before may take another way. After the peer's goodbye it
 * is no failure.
 * Tested by tests/unit/transport/link/verbs/fault_test.c. */
#include "transport/link/verbs/peer.h"

#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define END_NS (2 * 1000 * UINT64_C(1000))

/* -- the device -------------------------------------------------------------------------------- */

static void doubt_port(struct gyre_verbs_card *card, int number)
{
    gyre_log(GYRE_LOG_WARN, "verbs: port %d of %s has gone down", number, card->port.device);
    card->doubtful |= number == card->port.number;
}

/* A broken queue pair is no case here: its requests fail, with more to tell. */
static void hear_event(struct gyre_verbs_wire *wire, struct gyre_verbs_card *card,
                       const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_DEVICE_FATAL:
        gyre_verbs_break_all(wire, card, -ENODEV, "the device has failed or was removed");
        break;
    case IBV_EVENT_CQ_ERR:
        gyre_verbs_break_all(wire, card, -EIO, "the device's queue of completions has failed");
        break;
    case IBV_EVENT_PORT_ERR:
        doubt_port(card, event->element.port_num);
        break;
    default:
        gyre_log(GYRE_LOG_INFO, "verbs: %s: %s", card->port.device,
                 ibv_event_type_str(event->event_type));
    }
}

static void hear_devices(struct gyre_verbs_wire *wire)
{
    struct ibv_async_event event;
    for (uint32_t i = 0; i < wire->cards; i++)
        while (wire->card[i].context && !ibv_get_async_event(wire->card[i].context, &event)) {
            hear_event(wire, &wire->card[i], &event);
            ibv_ack_async_event(&event);
        }
}

/* -- sockets ----------------------------------------------------------------------------------- */

/* The other end has found a queue pair broken, which this end may not notice. */
static void hear_other_end(struct gyre_verbs_pipe *pipe)
{
    if (pipe->falls_back)
        gyre_verbs_break(pipe->queue, GYRE_PEER_LOST, "the other end found it broken");
}

static void look_at_socket(struct gyre_verbs_wire *wire, uint64_t name)
{
    uint32_t index = (uint32_t)name;
    struct gyre_verbs_pipe *pipe = index < wire->most ? wire->pipe[index] : NULL;
    char byte;
    if (!pipe || pipe->serial != name >> 32 || pipe->hangup || pipe->ended || pipe->fallback.state)
        return;
    ssize_t got = recv(pipe->fd[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0)
        hear_other_end(pipe);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    pipe->hangup = true;
    wire->hangups++;
}

void gyre_verbs_hear_events(struct gyre_verbs_wire *wire)
{
    struct epoll_event events[16];
    int count = epoll_wait(wire->epoll, events, 16, 0);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 == UINT64_MAX)
            hear_devices(wire);
        else
            look_at_socket(wire, events[i].data.u64);
}

static void settle_hangup(struct gyre_verbs_pipe *pipe)
{
    pipe->hangup = false;
    pipe->ended = true;
    pipe->wire->hangups--;
}

/* The end of a socket is no failure after the peer's goodbye. */
static void end_hangup(struct gyre_verbs_pipe *pipe, uint64_t now)
{
    if (!pipe->hangup_at)
        pipe->hangup_at = now;
    gyre_verbs_pipe_look(pipe);
    if (!gyre_stream_heard_bye(pipe->end.stream[0])) {
        if (now - pipe->hangup_at <= END_NS)
            return;
        gyre_verbs_fail(pipe->queue, GYRE_PEER_LOST,
                        "the peer closed its connection without a goodbye; look at that rank's "
                        "last lines");
    }
    pipe->broken = true;
    settle_hangup(pipe);
}

void gyre_verbs_end_hangups(struct gyre_verbs_wire *wire, uint64_t now)
{
    for (uint32_t i = 0; i < wire->most; i++)
        if (wire->pipe[i] && wire->pipe[i]->hangup)
            end_hangup(wire->pipe[i], now);
}
