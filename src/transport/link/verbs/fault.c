/* What a broken pipe tells: both GIDs, both queue pairs, the request's fate, this side's port, and how
 * often the device tries.
 *
 *     what the device says                         what the pipe fails with
 *     no answer, refused or flushed by the peer    GYRE_PEER_LOST; -ENETDOWN while our port is down
 *     a local error of the request                 -EIO: this side's device or a defect
 *     its queue of completions has failed          -EIO, every pipe over it
 *     the device has gone                          -ENODEV, every pipe over it
 *     nothing at all                               timeouts.c
 *
 * After goodbyes from both sides the peer may be gone at once, and whatever the device says of that
 * is no failure. A failed pipe's queue pair goes to its error state, so that the peer cannot write
 * any more; the socket stays open until detach(): its end would look like a death, and be told
 * before the cause. With GYRE_RDMA_FAILOVER=tcp a pipe that would fail by one of these goes on over
 * its socket instead (tcp_fallback.c).
 *
 * A socket ends with its peer's process. That counts once all completions have been read and END_NS
 * have passed: what the peer wrote before may take another way. */
#include "transport/link/verbs/inside.h"

#include "base/log.h"
#include "transport/stream/signature.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define END_NS (2 * 1000 * UINT64_C(1000))

const char *gyre_verbs_story(const struct gyre_verbs_queue *queue, const char *what,
                             char text[GYRE_VERBS_STORY])
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    gyre_verbs_gid_name(queue->mine.gid, here);
    gyre_verbs_gid_name(queue->theirs.gid, there);
    snprintf(text, GYRE_VERBS_STORY,
             "verbs link from rank %u to rank %u (%s, GID %s, queue pair %u to GID %s, "
             "queue pair %u): %s",
             pipe->wire->rank, pipe->peer, queue->card->name, here, queue->mine.number, there,
             queue->theirs.number, what);
    return text;
}

#define TRY_S (4.096e-6 * (1 << GYRE_VERBS_TIMEOUT_CODE)) /* the least time for an answer */

const char *gyre_verbs_circumstances(const struct gyre_verbs_queue *queue, const char *what,
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
    if (!queue->proven || pipe->status)
        return;
    pipe->status = status;
    pipe->broken = true;
    gyre_trouble_set(&pipe->trouble, status, "%s", gyre_verbs_story(queue, what, story));
    gyre_verbs_queue_stop_all(pipe);
    gyre_stream_fail(pipe->stream, status);
    gyre_verbs_pipe_mark(pipe);
}

/* The stream has refused what came, or what this rank posted. */
void gyre_verbs_fail_stream(struct gyre_verbs_pipe *pipe, int status)
{
    struct gyre_match mine;
    uint64_t theirs;
    char text[256] = "what came is not what the peer sent: check that both run the same version";
    if (status == -ENOMEM)
        snprintf(text, sizeof text, "no memory for a message on its way from or to a device");
    else if (status != GYRE_MISMATCH && status != GYRE_CORRUPT)
        snprintf(text, sizeof text, "a message of a device's memory could not be copied: %s",
                 gyre_status_name(status));
    if (status == GYRE_MISMATCH) {
        gyre_stream_mismatch(pipe->stream, &mine, &theirs);
        gyre_signature_disagreement(text, sizeof text, pipe->wire->rank, pipe->peer, &mine, theirs);
    }
    gyre_verbs_fail(pipe->queue, status, text);
}

/* -- requests ---------------------------------------------------------------------------------- */

static bool is_local(enum ibv_wc_status status)
{
    return status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
           status == IBV_WC_LOC_PROT_ERR || status == IBV_WC_LOC_ACCESS_ERR ||
           status == IBV_WC_FATAL_ERR || status == IBV_WC_GENERAL_ERR;
}

static const char *advice(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "no try was answered; is that rank alive, and does the network between the two lose "
               "everything?";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "it had no receive posted at any try; look at that rank's last lines";
    default:
        return "look at that rank's last lines";
    }
}

void gyre_verbs_fail_request(struct gyre_verbs_queue *queue, const struct ibv_wc *done)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    const char *port;
    char text[320];
    if (!queue->proven)
        gyre_verbs_refuse(queue, ibv_wc_status_str(done->status));
    if (!queue->proven || pipe->status || pipe->broken)
        return;
    gyre_verbs_slot_look(pipe);
    if (gyre_verbs_pipe_parted(pipe)) {
        pipe->broken = true;
        return;
    }
    bool down = gyre_verbs_port_state(queue->card, &port) == -ENETDOWN;
    snprintf(text, sizeof text, "%s (%s)", ibv_wc_status_str(done->status), advice(done->status));
    gyre_verbs_break(queue,
                     is_local(done->status) ? -EIO
                     : down                 ? -ENETDOWN
                                            : GYRE_PEER_LOST,
                     text);
}

/* -- the device -------------------------------------------------------------------------------- */

static void doubt_port(struct gyre_verbs_card *card, int number)
{
    gyre_log(GYRE_LOG_WARN, "verbs: port %d of %s has gone down", number, card->port.device);
    card->doubtful |= number == card->port.number;
}

/* What breaks a queue pair is told by its requests too, with more to say. */
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

/* It has found the queue pair broken, and says so where nothing else is said. */
static void hear_other_end(struct gyre_verbs_pipe *pipe)
{
    if (pipe->detours)
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

/* Everything that is no completion. The descriptors without a pipe are looked at as well. */
void gyre_verbs_look_aside(struct gyre_verbs_wire *wire)
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

/* After the peer's goodbye its end is no failure. */
static void end_hangup(struct gyre_verbs_pipe *pipe, uint64_t now)
{
    if (!pipe->hangup_at)
        pipe->hangup_at = now;
    gyre_verbs_slot_look(pipe);
    if (!gyre_stream_heard_bye(pipe->stream)) {
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
