/* The simulator's driver: a stream over each connection of a simulated world (world.h).
 *
 *      post ─▶ stream ─ gather ─▶ end ═══ virtual time ═══▶ end ─ target ─▶ stream ─▶ completion
 *                                                            │
 *                        world: marked ends of this rank  ◀──┘
 *
 * A wire looks only at pipes whose ends are marked, so the cost of a rank follows its traffic and
 * not its number of peers. A post asks the world to wake the rank, so bytes move at the rank's next
 * poll and not inside the post. A detached pipe stays in the wire until its completions are
 * fetched. Buffers of the world grow as needed; nothing else is allocated after attach().
 * Tested by tests/link/sim.c and tests/sim/engine.c. */
#include "transport/link/driver.h"
#include "transport/link/sim/world.h"
#include "transport/stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#define VECTORS 16

struct sim_pipe {
    struct sim_wire *wire;
    struct gyre_stream *stream;
    struct gyre_sim_end *end;
    LIST_ENTRY(sim_pipe) in_list; /* of the wire */
    uint32_t peer;
    bool parting;
    int status;
};

struct sim_wire {
    struct gyre_sim_world *world;
    uint32_t rank;
    uint16_t epoch;
    LIST_HEAD(, sim_pipe) pipes;
    LIST_HEAD(, sim_pipe) leaving; /* detached, with completions to fetch */
};

/* Something was posted: the pipe is looked at, in a poll of the rank. */
static void stir(struct sim_pipe *pipe)
{
    gyre_sim_end_mark(pipe->end);
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

static void free_pipe(struct sim_pipe *pipe)
{
    LIST_REMOVE(pipe, in_list);
    gyre_stream_destroy(pipe->stream);
    free(pipe);
}

static void sim_close(struct gyre_wire *base)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    struct sim_pipe *pipe;
    if (!wire) {
        return;
    }
    while ((pipe = LIST_FIRST(&wire->pipes))) {
        gyre_sim_end_close(pipe->end);
        free_pipe(pipe);
    }
    while ((pipe = LIST_FIRST(&wire->leaving))) {
        free_pipe(pipe);
    }
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
        status = gyre_sim_end_open(wire->world, wire->rank, pipe->peer, pipe, &pipe->end);
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
    LIST_INSERT_HEAD(&wire->pipes, pipe, in_list);
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
    LIST_REMOVE(pipe, in_list);
    LIST_INSERT_HEAD(&wire->leaving, pipe, in_list);
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
        gyre_sim_end_close(pipe->end); /* the peer learns of it, as of a closed socket */
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

/* Fetches completions of detached pipes. A pipe is freed with its last one. */
static int complete_leaving(struct sim_wire *wire, struct gyre_completion *out, int max)
{
    struct sim_pipe *pipe;
    int count = 0;
    while (count < max && (pipe = LIST_FIRST(&wire->leaving))) {
        count += gyre_stream_complete(pipe->stream, out + count, max - count);
        if (count < max) {
            free_pipe(pipe);
        }
    }
    return count;
}

static int sim_poll(struct gyre_wire *base, uint64_t now, struct gyre_completion *out, int max)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    struct sim_pipe *pipe;
    int count = complete_leaving(wire, out, max);
    while (count < max && (pipe = gyre_sim_world_take_marked(wire->world, wire->rank))) {
        if (!pipe->status) {
            read_all(pipe);
            write_to_pipe(pipe);
        }
        count += gyre_stream_complete(pipe->stream, out + count, max - count);
        if (count == max) { /* there may be more */
            gyre_sim_end_mark(pipe->end);
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
    return !LIST_EMPTY(&wire->leaving) || gyre_sim_world_has_marked(wire->world, wire->rank)
               ? GYRE_AGAIN
               : 0;
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
