/* The simulator's driver: a stream over each connection of a simulated world (world.h).
 *
 *      post ─▶ stream ─ gather ─▶ end ═══ virtual time ═══▶ end ─ target ─▶ stream ─▶ completion
 *                                                            │
 *                              wire.busy: pipes to look at ◀─┘ ready()
 *
 * A wire looks only at pipes about which something changed, so a rank costs what it does and not
 * what it could do. A post asks the world to wake the rank, so bytes move at the rank's next poll
 * and not inside the post. Completions of a detached pipe outlive it in the wire. Buffers of the
 * world grow as needed; nothing else is allocated after attach(). */
#include "transport/link/driver.h"
#include "transport/link/sim/world.h"
#include "transport/stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define VECTORS 16

struct sim_pipe {
    struct sim_wire *wire;
    struct gyre_stream *stream;
    struct gyre_sim_end *end;
    struct sim_pipe *next_busy;
    struct sim_pipe *next, *previous; /* of the wire */
    uint32_t peer;
    bool busy, parting;
    int status;
};

struct sim_wire {
    struct gyre_sim_world *world;
    uint32_t rank;
    uint16_t epoch;
    struct sim_pipe *pipes;
    struct sim_pipe *busy_first, *busy_last;
    struct sim_pipe *leaving; /* detached, with completions to fetch */
};

/* -- busy pipes -------------------------------------------------------------------------------- */

static void mark_busy(void *context)
{
    struct sim_pipe *pipe = context;
    struct sim_wire *wire = pipe->wire;
    if (pipe->busy) {
        return;
    }
    pipe->busy = true;
    pipe->next_busy = NULL;
    *(wire->busy_first ? &wire->busy_last->next_busy : &wire->busy_first) = pipe;
    wire->busy_last = pipe;
}

static struct sim_pipe *take_busy(struct sim_wire *wire)
{
    struct sim_pipe *pipe = wire->busy_first;
    if (pipe) {
        wire->busy_first = pipe->next_busy;
        pipe->busy = false;
    }
    return pipe;
}

static void forget_busy(struct sim_pipe *pipe)
{
    struct sim_pipe *first = pipe->wire->busy_first;
    pipe->wire->busy_first = NULL;
    while (first) {
        struct sim_pipe *next = first->next_busy;
        first->busy = false;
        if (first != pipe) {
            mark_busy(first);
        }
        first = next;
    }
}

/* Something was posted here: look at the pipe, and let the rank be polled. */
static void stir(struct sim_pipe *pipe)
{
    mark_busy(pipe);
    gyre_sim_world_wake(pipe->wire->world, pipe->wire->rank, 0);
}

/* -- wire -------------------------------------------------------------------------------------- */

static int sim_open(const struct gyre_wire_options *options, struct gyre_wire **out,
                    struct gyre_trouble *trouble)
{
    struct gyre_sim_world *world = options->world;
    if (!world || options->rank >= gyre_sim_world_size(world)) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the sim transport needs a simulated world that holds rank %u",
                                options->rank);
    }
    struct sim_wire *wire = calloc(1, sizeof *wire);
    if (!wire) {
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for rank %u's simulated wire",
                                options->rank);
    }
    wire->world = world;
    wire->rank = options->rank;
    wire->epoch = options->epoch;
    *out = (struct gyre_wire *)wire;
    return 0;
}

static void unlink_pipe(struct sim_pipe *pipe)
{
    *(pipe->previous ? &pipe->previous->next : &pipe->wire->pipes) = pipe->next;
    if (pipe->next) {
        pipe->next->previous = pipe->previous;
    }
}

static void free_pipes(struct sim_pipe *pipe)
{
    while (pipe) {
        struct sim_pipe *next = pipe->next;
        gyre_stream_destroy(pipe->stream);
        free(pipe);
        pipe = next;
    }
}

static void sim_close(struct gyre_wire *base)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    if (!wire) {
        return;
    }
    for (struct sim_pipe *pipe = wire->pipes; pipe; pipe = pipe->next) {
        gyre_sim_end_close(pipe->end);
    }
    free_pipes(wire->pipes);
    free_pipes(wire->leaving);
    free(wire);
}

static void sim_describe(const struct gyre_wire *base, char *text, size_t size)
{
    snprintf(text, size, "sim/virtual time");
}

/* -- pipes ------------------------------------------------------------------------------------- */

static int make_pipe(struct sim_wire *wire, struct sim_pipe *pipe)
{
    struct gyre_stream_options options = {
        .epoch = wire->epoch, .posts = gyre_sim_world_posts(wire->world), .checksum = true};
    int status = gyre_stream_create(&options, &pipe->stream);
    if (!status) {
        status =
            gyre_sim_end_open(wire->world, wire->rank, pipe->peer, mark_busy, pipe, &pipe->end);
    }
    return status;
}

static int sim_attach(struct gyre_wire *base, const struct gyre_channel *channel,
                      struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    uint32_t n = gyre_sim_world_size(wire->world);
    if (channel->peer >= n || channel->peer == wire->rank) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "rank %u cannot attach to %u in a simulated world of %u ranks",
                                wire->rank, channel->peer, n);
    }
    struct sim_pipe *pipe = calloc(1, sizeof *pipe);
    int status = -ENOMEM;
    if (pipe) {
        pipe->wire = wire;
        pipe->peer = channel->peer;
        status = make_pipe(wire, pipe);
    }
    if (status) {
        gyre_stream_destroy(pipe ? pipe->stream : NULL);
        free(pipe);
        return gyre_trouble_set(trouble, status,
                                "rank %u cannot attach to rank %u in the simulated world: %s",
                                wire->rank, channel->peer, gyre_status_name(status));
    }
    pipe->next = wire->pipes;
    if (pipe->next) {
        pipe->next->previous = pipe;
    }
    wire->pipes = pipe;
    stir(pipe);
    *out = (struct gyre_pipe *)pipe;
    return 0;
}

static void sim_detach(struct gyre_pipe *base)
{
    struct sim_pipe *pipe = (struct sim_pipe *)base;
    struct sim_wire *wire = pipe->wire;
    gyre_stream_fail(pipe->stream, -ECANCELED);
    gyre_sim_end_close(pipe->end);
    forget_busy(pipe);
    unlink_pipe(pipe);
    pipe->next = wire->leaving;
    wire->leaving = pipe;
    gyre_sim_world_wake(wire->world, wire->rank, 0);
}

static int sim_bye(struct gyre_pipe *base)
{
    struct sim_pipe *pipe = (struct sim_pipe *)base;
    if (gyre_stream_said_bye(pipe->stream) && gyre_stream_heard_bye(pipe->stream)) {
        return 0;
    }
    if (pipe->status) {
        return pipe->status;
    }
    if (!pipe->parting) {
        pipe->parting = true;
        gyre_stream_bye(pipe->stream);
        stir(pipe);
    }
    return GYRE_AGAIN;
}

static int sim_send(struct gyre_pipe *base, const struct gyre_match *match, const void *data,
                    uint64_t length, uint64_t token)
{
    struct sim_pipe *pipe = (struct sim_pipe *)base;
    stir(pipe);
    return gyre_stream_send(pipe->stream, match, data, length, token);
}

static int sim_recv(struct gyre_pipe *base, const struct gyre_match *match, void *data,
                    uint64_t length, uint64_t token)
{
    struct sim_pipe *pipe = (struct sim_pipe *)base;
    stir(pipe);
    return gyre_stream_recv(pipe->stream, match, data, length, token);
}

static int sim_cancel(struct gyre_pipe *base, uint64_t token)
{
    struct sim_pipe *pipe = (struct sim_pipe *)base;
    stir(pipe);
    return gyre_stream_cancel(pipe->stream, token);
}

/* -- progress ---------------------------------------------------------------------------------- */

static void break_pipe(struct sim_pipe *pipe, int status)
{
    if (!pipe->status) {
        pipe->status = status;
        gyre_stream_fail(pipe->stream, status);
        gyre_sim_end_close(pipe->end); /* as a socket that is closed: the peer learns of it */
    }
}

static void read_all(struct sim_pipe *pipe)
{
    struct iovec iov[2];
    size_t bytes;
    do {
        int count = gyre_stream_target(pipe->stream, iov);
        bytes = gyre_sim_end_read(pipe->end, iov, count);
        int status = bytes > 0 ? gyre_stream_read(pipe->stream, bytes) : 0;
        if (status) {
            break_pipe(pipe, status);
        }
    } while (bytes > 0 && !pipe->status);
    bool parted = gyre_stream_said_bye(pipe->stream) && gyre_stream_heard_bye(pipe->stream);
    if (!pipe->status && !parted && gyre_sim_end_over(pipe->end)) {
        break_pipe(pipe, GYRE_PEER_LOST);
    }
}

static void write_to_pipe(struct sim_pipe *pipe)
{
    struct iovec iov[VECTORS];
    size_t bytes;
    do {
        int count = gyre_stream_gather(pipe->stream, iov, VECTORS);
        bytes = count > 0 ? gyre_sim_end_write(pipe->end, iov, count) : 0;
        gyre_stream_wrote(pipe->stream, bytes);
    } while (bytes > 0);
}

/* Completions of detached pipes; the pipes go with the last one. */
static int see_off(struct sim_wire *wire, struct gyre_completion *out, int max)
{
    int count = 0;
    while (count < max && wire->leaving) {
        struct sim_pipe *pipe = wire->leaving;
        int done = gyre_stream_complete(pipe->stream, out + count, max - count);
        count += done;
        if (count < max) {
            wire->leaving = pipe->next;
            pipe->next = NULL;
            free_pipes(pipe);
        }
    }
    return count;
}

static int sim_poll(struct gyre_wire *base, uint64_t now, struct gyre_completion *out, int max)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    struct sim_pipe *pipe;
    int count = see_off(wire, out, max);
    while (count < max && (pipe = take_busy(wire))) {
        if (!pipe->status) {
            read_all(pipe);
            write_to_pipe(pipe);
        }
        int done = gyre_stream_complete(pipe->stream, out + count, max - count);
        count += done;
        if (count == max) { /* there may be more */
            mark_busy(pipe);
        }
    }
    return count;
}

static int sim_state(const struct gyre_pipe *base, struct gyre_trouble *trouble)
{
    const struct sim_pipe *pipe = (const struct sim_pipe *)base;
    if (!pipe->status) {
        return 0;
    }
    return gyre_trouble_set(trouble, pipe->status,
                            "rank %u: the simulated connection to rank %u failed: %s",
                            pipe->wire->rank, pipe->peer, gyre_status_name(pipe->status));
}

static int sim_arm(struct gyre_wire *base, struct gyre_alarm *alarm)
{
    const struct sim_wire *wire = (const struct sim_wire *)base;
    alarm->fd = -1;
    return wire->busy_first || wire->leaving ? GYRE_AGAIN : 0;
}

const struct gyre_driver gyre_driver_sim = {.name = "sim",
                                            .open = sim_open,
                                            .close = sim_close,
                                            .describe = sim_describe,
                                            .attach = sim_attach,
                                            .detach = sim_detach,
                                            .bye = sim_bye,
                                            .send = sim_send,
                                            .recv = sim_recv,
                                            .cancel = sim_cancel,
                                            .poll = sim_poll,
                                            .state = sim_state,
                                            .arm = sim_arm};
