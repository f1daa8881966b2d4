/* The verbs driver: messages over RDMA writes (InfiniBand, RoCE, and rxe, its software twin).
 * peer.h has the map of the files.
 *
 *     poll()   completions of all peers ──▶ pipes they concern ──▶ serve: push, fetch completions
 *
 * A pipe stands on wire->busy while it has posts outstanding or something has come for it. poll()
 * serves those pipes, so its cost follows the traffic and not the number of peers. A sleeper wakes
 * by the completion channels and by the sockets, each of which ends with its peer's process. */
#include "transport/link/verbs/peer.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define HEAR_EVERY_NS (GYRE_MS / 5) /* sockets and the devices' events */

/* -- wires ------------------------------------------------------------------------------------- */

static void verbs_close(struct gyre_wire *handle);

static int verbs_open(const struct gyre_wire_options *options, struct gyre_wire **out,
                      struct gyre_trouble *trouble)
{
    struct gyre_verbs_wire *wire = calloc(1, sizeof *wire);
    if (wire)
        wire->pipe = calloc(options->peers, sizeof *wire->pipe);
    if (!wire || !wire->pipe) {
        free(wire);
        return gyre_trouble_set(trouble, -ENOMEM, "verbs: no memory for a wire");
    }
    wire->rank = options->rank;
    wire->epoch = options->epoch;
    wire->failover = options->failover;
    wire->dead_ns = (uint64_t)options->dead_time_ms * GYRE_MS;
    wire->most = options->peers;
    wire->epoll = -1;
    TAILQ_INIT(&wire->busy);
    wire->lookup = options->lookup;
    wire->copy_queue = options->lookup ? options->lookup->copy_queue : NULL;
    int status = gyre_verbs_device_open(wire, options, trouble);
    if (status) {
        verbs_close((struct gyre_wire *)wire);
        return status;
    }
    *out = (struct gyre_wire *)wire;
    return 0;
}

static void verbs_detach(struct gyre_pipe *end)
{
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    struct gyre_verbs_wire *wire = pipe->wire;
    gyre_verbs_queue_destroy_all(pipe);
    wire->pipe[pipe->index] = NULL;
    wire->hangups -= pipe->hangup;
    wire->fallbacks -= pipe->fallback.state != GYRE_VERBS_DIRECT;
    for (int i = 0; i < pipe->fds; i++)
        close(pipe->fd[i]);
    if (pipe->busy)
        TAILQ_REMOVE(&wire->busy, pipe, in_busy);
    gyre_end_depart(end, &wire->departed);
}

static void verbs_close(struct gyre_wire *handle)
{
    struct gyre_verbs_wire *wire = (struct gyre_verbs_wire *)handle;
    if (!wire)
        return;
    for (uint32_t i = 0; i < wire->most; i++)
        if (wire->pipe[i])
            verbs_detach(&wire->pipe[i]->end);
    gyre_end_forget(&wire->departed);
    gyre_verbs_memory_close(wire);
    gyre_verbs_device_close(wire);
    free(wire->pipe);
    free(wire);
}

static void verbs_describe(const struct gyre_wire *wire, char *text, size_t size)
{
    snprintf(text, size, "verbs/%s", ((const struct gyre_verbs_wire *)wire)->name);
}

/* -- attach ------------------------------------------------------------------------------------ */

static uint32_t free_pipe_place(const struct gyre_verbs_wire *wire)
{
    uint32_t index = 0;
    while (index < wire->most && wire->pipe[index])
        index++;
    return index;
}

static int make_pipe(struct gyre_verbs_wire *wire, const struct gyre_channel *channel,
                     struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    const struct gyre_stream_options options = {.epoch = wire->epoch,
                                                .posts = GYRE_PIPE_POSTS,
                                                .peer = channel->peer,
                                                .copy_queue = wire->copy_queue,
                                                .places = GYRE_VERBS_PLACES};
    int status = gyre_end_create(sizeof(struct gyre_verbs_pipe), wire->rank, channel->peer,
                                 &options, 1, out);
    if (status)
        return gyre_trouble_set(trouble, status, "no memory for a verbs link to rank %u",
                                channel->peer);
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)*out;
    pipe->wire = wire;
    pipe->index = free_pipe_place(wire);
    pipe->serial = ++wire->serials;
    pipe->fds = channel->fds;
    for (uint32_t i = 0; i < wire->queues; i++)
        pipe->queue[i] =
            (struct gyre_verbs_queue){.pipe = pipe, .card = &wire->card[i % wire->cards]};
    memcpy(pipe->fd, channel->fd, sizeof pipe->fd);
    gyre_verbs_device_place(pipe);
    return 0;
}

static int listen_to_pipe(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                                .data.u64 = (uint64_t)pipe->serial << 32 | pipe->index};
    if (epoll_ctl(pipe->wire->epoll, EPOLL_CTL_ADD, pipe->fd[0], &event))
        return gyre_trouble_set(trouble, -errno,
                                "verbs: the connection to rank %u cannot be "
                                "watched: %s",
                                pipe->end.peer, strerror(errno));
    return 0;
}

/* The descriptors stay the caller's. */
static void abandon_pipe(struct gyre_verbs_pipe *pipe)
{
    pipe->wire->pipe[pipe->index] = NULL;
    gyre_verbs_queue_destroy_all(pipe);
    if (pipe->busy)
        TAILQ_REMOVE(&pipe->wire->busy, pipe, in_busy);
    gyre_end_destroy(&pipe->end);
}

static int verbs_attach(struct gyre_wire *handle, const struct gyre_channel *channel,
                        struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    struct gyre_verbs_wire *wire = (struct gyre_verbs_wire *)handle;
    if (channel->fds < 1 || free_pipe_place(wire) == wire->most)
        return gyre_trouble_set(trouble, -EINVAL,
                                "rank %u: a verbs link needs a connection, and one of %u places",
                                channel->peer, wire->most);
    struct gyre_pipe *end;
    int status = make_pipe(wire, channel, &end, trouble);
    if (status)
        return status;
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    wire->pipe[pipe->index] = pipe;
    status = gyre_verbs_meet(pipe, trouble);
    status = status ? status : listen_to_pipe(pipe, trouble);
    if (status) {
        abandon_pipe(pipe);
        return status;
    }
    *out = end;
    return 0;
}

/* -- posts ------------------------------------------------------------------------------------- */

/* A post or a cancel may show that the peer disagrees or lies, which ends all posts: then no device
 * may read or write for them. */
static void fail_with_stream(struct gyre_verbs_pipe *pipe)
{
    int failure = gyre_stream_failure(pipe->end.stream[0]);
    if (failure)
        gyre_verbs_fail_stream(pipe, failure);
}

static int verbs_refused(struct gyre_verbs_pipe *pipe, int status)
{
    fail_with_stream(pipe);
    return status;
}

static void accepted(struct gyre_verbs_pipe *pipe)
{
    pipe->posts++;
    gyre_verbs_mark(pipe);
}

static int verbs_send(struct gyre_pipe *end, const struct gyre_match *match, const void *data,
                      uint64_t length, uint64_t token)
{
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    int status = pipe->end.status;
    if (!status && !pipe->broken && gyre_verbs_pipe_send_now(pipe, match, data, length, token)) {
        accepted(pipe);
        return 0;
    }
    if (!status)
        status = gyre_verbs_remote_write_send(pipe, match, data, length, token);
    if (status)
        return verbs_refused(pipe, status);
    accepted(pipe);
    gyre_verbs_pipe_push(pipe);
    return 0;
}

static int verbs_recv(struct gyre_pipe *end, const struct gyre_match *match, void *data,
                      uint64_t length, uint64_t token)
{
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    int status = pipe->end.status ? pipe->end.status
                                  : gyre_verbs_remote_write_recv(pipe, match, data, length, token);
    if (status)
        return verbs_refused(pipe, status);
    accepted(pipe);
    if (length > GYRE_EAGER_MAX)
        gyre_verbs_pipe_push(pipe); /* the grant */
    return 0;
}

/* Of a device's memory the cards carry what is registered with them. */
static bool verbs_carries(struct gyre_pipe *end, const void *memory, uint64_t length, bool send)
{
    (void)send;
    return gyre_end_carries(end, memory, length, false) &&
           gyre_verbs_memory_of(((struct gyre_verbs_pipe *)end)->wire, memory, length);
}

static int verbs_cancel(struct gyre_pipe *end, uint64_t token)
{
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    int status = gyre_stream_cancel(pipe->end.stream[0], token);
    gyre_verbs_mark(pipe);
    fail_with_stream(pipe);
    return status;
}

/* The device has answered the goodbye before this end goes: else the goodbye could be lost. */
static int verbs_bye(struct gyre_pipe *end)
{
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    if (end->status)
        return end->status;
    pipe->parting = true;
    gyre_end_bye(end);
    gyre_verbs_pipe_push(pipe);
    gyre_verbs_mark(pipe);
    bool left = pipe->fallback.state
                    ? gyre_verbs_fallback_done(pipe)
                    : pipe->broken || pipe->queue->sends == pipe->queue->sends_done;
    return left && gyre_end_parted(end) ? 0 : GYRE_AGAIN;
}

/* -- progress ---------------------------------------------------------------------------------- */

/* Moves messages of a device's memory that a card of either end does not reach. */
static void fetch_device_pieces(struct gyre_verbs_pipe *pipe)
{
    int moved =
        pipe->wire->copy_queue && !pipe->end.status ? gyre_stream_fetch(pipe->end.stream[0]) : 0;
    pipe->wire->moved += moved > 0;
    if (moved < 0)
        gyre_verbs_fail_stream(pipe, moved);
}

static int serve_pipe(struct gyre_verbs_pipe *pipe, struct gyre_completion *out, int max)
{
    struct gyre_verbs_wire *wire = pipe->wire;
    TAILQ_REMOVE(&wire->busy, pipe, in_busy);
    pipe->busy = false;
    fetch_device_pieces(pipe);
    gyre_verbs_pipe_push(pipe);
    int got = gyre_stream_complete(pipe->end.stream[0], out, max);
    pipe->posts -= (uint32_t)got;
    if (pipe->posts || got == max)
        gyre_verbs_mark(pipe);
    return got;
}

/* Looks at the slots of busy pipes. */
static bool look_at_slots(struct gyre_verbs_wire *wire)
{
    struct gyre_verbs_pipe *pipe;
    bool seen = false;
    TAILQ_FOREACH(pipe, &wire->busy, in_busy)
    {
        seen |= gyre_verbs_pipe_look(pipe);
    }
    return seen;
}

/* Records from slots are served before the devices are asked. The next poll() asks the devices. */
static void look_at_wire(struct gyre_verbs_wire *wire, uint64_t now)
{
    wire->looked = !wire->looked && look_at_slots(wire);
    bool came = wire->looked || gyre_verbs_drain(wire);
    if (now - wire->heard >= HEAR_EVERY_NS) {
        wire->heard = now;
        gyre_verbs_memory_tidy(wire);
        gyre_verbs_hear_events(wire);
        gyre_verbs_check_timeouts(wire, now);
    }
    if (wire->fallbacks)
        gyre_verbs_fallback_serve(wire, now);
    if (wire->hangups && !came)
        gyre_verbs_end_hangups(wire, now);
}

static int verbs_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    struct gyre_verbs_wire *wire = (struct gyre_verbs_wire *)handle;
    if (max < 1)
        return 0;
    look_at_wire(wire, now);
    int got = gyre_end_harvest(&wire->departed, out, max);
    struct gyre_verbs_pipe *last = TAILQ_LAST(&wire->busy, gyre_verbs_busy);
    for (bool more = last; more && got < max;) {
        struct gyre_verbs_pipe *pipe = TAILQ_FIRST(&wire->busy);
        more = pipe != last;
        got += serve_pipe(pipe, out + got, max - got);
    }
    wire->full = got == max;
    return got;
}

static int arm_cards(struct gyre_verbs_wire *wire)
{
    int status = 0;
    for (uint32_t i = 0; i < wire->cards; i++)
        if (wire->card[i].context)
            status |= gyre_verbs_card_arm(&wire->card[i]);
    return status;
}

/* Whether a copy waits for room in the copy queue, or a long message has to ask for its grant. */
static bool is_pending(const struct gyre_verbs_wire *wire)
{
    const struct gyre_verbs_pipe *pipe;
    bool pending = false;
    TAILQ_FOREACH(pipe, &wire->busy, in_busy)
    {
        pending |= gyre_stream_ask(pipe->end.stream[0]) ||
                   (wire->copy_queue && gyre_stream_pending(pipe->end.stream[0]));
    }
    return pending;
}

static int verbs_arm(struct gyre_wire *handle, struct gyre_alarm *alarm)
{
    struct gyre_verbs_wire *wire = (struct gyre_verbs_wire *)handle;
    int status = arm_cards(wire);
    gyre_verbs_hear_events(wire);
    alarm->fd = wire->epoll;
    if (status || wire->full || wire->hangups || is_pending(wire) || wire->departed ||
        gyre_verbs_drain(wire) || (wire->fallbacks && gyre_verbs_fallback_serve(wire, 0)))
        return GYRE_AGAIN;
    return 0;
}

static uint64_t verbs_moved(const struct gyre_wire *wire)
{
    return ((const struct gyre_verbs_wire *)wire)->moved;
}

const struct gyre_driver gyre_driver_verbs = {
    .name = "verbs",
    .open = verbs_open,
    .close = verbs_close,
    .describe = verbs_describe,
    .attach = verbs_attach,
    .detach = verbs_detach,
    .bye = verbs_bye,
    .send = verbs_send,
    .recv = verbs_recv,
    .cancel = verbs_cancel,
    .carries = verbs_carries,
    .poll = verbs_poll,
    .state = gyre_end_state,
    .arm = verbs_arm,
    .moved = verbs_moved,
};
