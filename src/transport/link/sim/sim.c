/* The simulator's driver: a stream over each connection of a simulated world (world.h).
 *
 *      post ─▶ stream ─ gather ─▶ end ═══ virtual time ═══▶ end ─ target ─▶ stream ─▶ completion
 *                                                            │
 *                        world: marked ends of this rank  ◀──┘
 *
 * A wire looks only at pipes whose ends are marked, so the cost of a rank follows its traffic and
 * not its number of peers. A post asks the world to wake the rank, so bytes move at the rank's next
 * poll and not inside the post. Buffers of the world grow as needed; nothing else is allocated
 * after attach().
 *
 * A channel whose descriptor is -1 is yet to be made, as over TCP: its pipe takes posts, and has no
 * line until renew(). A line that breaks is not made anew.
 * Tested by tests/link/sim.c, tests/sim/engine.c and tests/unit/transport/link/sim/world_test.c. */
#include "transport/link/end.h"
#include "transport/link/sim/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#define VECTORS 16

struct sim_pipe {
    struct gyre_pipe end;
    struct sim_wire *wire;
    struct gyre_sim_end *line; /* NULL: there is none yet */
    LIST_ENTRY(sim_pipe) in_wire, in_unmade;
    bool parting;
    bool asked; /* broken() has told that the line is yet to be made */
    bool due;   /* a pipe without a line has completions to tell */
};

struct sim_wire {
    struct gyre_sim_world *world;
    uint32_t rank;
    uint16_t epoch;
    LIST_HEAD(, sim_pipe) pipes, unmade; /* unmade: those without a line */
    struct gyre_pipe *departed;
    uint64_t moved; /* bytes, both ways */
};

/* Has the pipe looked at in a poll of the rank: something was posted. */
static void stir(struct sim_pipe *pipe)
{
    if (pipe->line)
        gyre_sim_end_mark(pipe->line);
    else
        pipe->due = true;
    gyre_sim_world_wake(pipe->wire->world, pipe->wire->rank, 0);
}

/* The line, made or not, is over: the peer learns of it as of a closed socket. */
static void close_line(struct sim_pipe *pipe)
{
    if (pipe->line)
        gyre_sim_end_close(pipe->line);
    else
        LIST_REMOVE(pipe, in_unmade);
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

static void sim_close(struct gyre_wire *base)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    struct sim_pipe *pipe;
    if (!wire) {
        return;
    }
    while ((pipe = LIST_FIRST(&wire->pipes))) {
        LIST_REMOVE(pipe, in_wire);
        close_line(pipe);
        gyre_end_destroy(&pipe->end);
    }
    gyre_end_forget(&wire->departed);
    free(wire);
}

static void sim_describe(const struct gyre_wire *base, char *text, size_t size)
{
    snprintf(text, size, "sim/virtual time");
}

/* -- pipes ------------------------------------------------------------------------------------- */

static int open_pipe(struct sim_wire *wire, const struct gyre_channel *channel,
                     struct gyre_pipe **out)
{
    const struct gyre_stream_options options = {.epoch = wire->epoch,
                                                .posts = gyre_sim_world_posts(wire->world),
                                                .checksum = true,
                                                .eager = gyre_sim_world_eager(wire->world),
                                                .security = channel->security,
                                                .keys = channel->keys};
    uint32_t peer = channel->peer;
    int status = gyre_end_create(sizeof(struct sim_pipe), wire->rank, peer, &options, 1, out);
    if (status) {
        return status;
    }
    struct sim_pipe *pipe = (struct sim_pipe *)*out;
    pipe->wire = wire;
    if (channel->fds && channel->fd[0] < 0) {
        LIST_INSERT_HEAD(&wire->unmade, pipe, in_unmade);
        return 0;
    }
    status = gyre_sim_end_open(wire->world, wire->rank, peer, pipe, &pipe->line);
    if (status) {
        gyre_end_destroy(*out);
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
    struct gyre_pipe *end;
    int status = open_pipe(wire, channel, &end);
    if (status) {
        return gyre_trouble_set(trouble, status,
                                "rank %u cannot attach to rank %u in the simulated world: %s",
                                wire->rank, channel->peer, gyre_status_name(status));
    }
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    LIST_INSERT_HEAD(&wire->pipes, pipe, in_wire);
    stir(pipe);
    *out = end;
    return 0;
}

static void sim_detach(struct gyre_pipe *end)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    struct sim_wire *wire = pipe->wire;
    close_line(pipe);
    LIST_REMOVE(pipe, in_wire);
    gyre_end_depart(end, &wire->departed);
    gyre_sim_world_wake(wire->world, wire->rank, 0);
}

static int sim_bye(struct gyre_pipe *end)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    if (gyre_end_parted(end)) {
        return 0;
    }
    if (end->status) {
        return end->status;
    }
    if (!pipe->parting) {
        pipe->parting = true;
        gyre_end_bye(end);
        stir(pipe);
    }
    return GYRE_AGAIN;
}

static int sim_send(struct gyre_pipe *end, const struct gyre_match *match, const void *data,
                    uint64_t length, uint64_t token)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    stir(pipe);
    return gyre_stream_send(end->stream[0], match, data, length, token);
}

static int sim_recv(struct gyre_pipe *end, const struct gyre_match *match, void *data,
                    uint64_t length, uint64_t token)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    stir(pipe);
    return gyre_stream_recv(end->stream[0], match, data, length, token);
}

static int sim_cancel(struct gyre_pipe *end, uint64_t token)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    stir(pipe);
    return gyre_stream_cancel(end->stream[0], token);
}

/* -- progress ---------------------------------------------------------------------------------- */

static void break_pipe(struct sim_pipe *pipe, int status)
{
    if (pipe->end.status) {
        return;
    }
    gyre_trouble_set(&pipe->end.trouble, status,
                     "rank %u: the simulated connection to rank %u failed: %s", pipe->end.rank,
                     pipe->end.peer, gyre_status_name(status));
    gyre_end_fail(&pipe->end, status);
    if (pipe->line)
        gyre_sim_end_close(pipe->line); /* the peer learns of it as of a closed socket */
}

static void read_from_world(struct sim_pipe *pipe)
{
    struct iovec iov[2];
    size_t bytes;
    do {
        int count = gyre_stream_target(pipe->end.stream[0], iov);
        bytes = gyre_sim_end_read(pipe->line, iov, count);
        int status = bytes > 0 ? gyre_stream_read(pipe->end.stream[0], bytes) : 0;
        pipe->wire->moved += bytes;
        if (status) {
            break_pipe(pipe, status);
        }
    } while (bytes > 0 && !pipe->end.status);
    if (!pipe->end.status && !gyre_end_has_left(&pipe->end) && gyre_sim_end_over(pipe->line)) {
        break_pipe(pipe, GYRE_PEER_LOST);
    }
}

/* Writes, or drops what nobody reads: the peer said goodbye and has gone. */
static size_t write_vectors(struct sim_pipe *pipe, const struct iovec *iov, int count)
{
    size_t bytes = 0;
    if (!gyre_sim_end_over(pipe->line))
        return gyre_sim_end_write(pipe->line, iov, count);
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

static void write_to_world(struct sim_pipe *pipe)
{
    struct iovec iov[VECTORS];
    size_t bytes;
    do {
        int count = gyre_stream_gather(pipe->end.stream[0], iov, VECTORS);
        bytes = count > 0 ? write_vectors(pipe, iov, count) : 0;
        gyre_stream_wrote(pipe->end.stream[0], bytes);
        pipe->wire->moved += bytes;
    } while (bytes > 0);
}

/* Tells of posts that ended while their line is yet to be made: withdrawn, or with their pipe. */
static int harvest_unmade(struct sim_wire *wire, struct gyre_completion *out, int max)
{
    struct sim_pipe *pipe;
    int count = 0;
    LIST_FOREACH(pipe, &wire->unmade, in_unmade)
    if (pipe->due) {
        count += gyre_stream_complete(pipe->end.stream[0], out + count, max - count);
        pipe->due = count == max; /* there may be more */
    }
    return count;
}

static int sim_poll(struct gyre_wire *base, uint64_t now, struct gyre_completion *out, int max)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    struct sim_pipe *pipe;
    int count = gyre_end_harvest(&wire->departed, out, max);
    count += harvest_unmade(wire, out + count, max - count);
    while (count < max && (pipe = gyre_sim_world_take_marked(wire->world, wire->rank))) {
        if (!pipe->end.status) {
            read_from_world(pipe);
            write_to_world(pipe);
        }
        count += gyre_stream_complete(pipe->end.stream[0], out + count, max - count);
        if (count == max) { /* there may be more */
            gyre_sim_end_mark(pipe->line);
        }
    }
    return count;
}

/* Counts bytes that have not arrived as moving, as over TCP, and a line that is yet to be made: a
 * bad link is no standstill of ranks that wait for each other. */
static uint64_t sim_moved(const struct gyre_wire *base)
{
    const struct sim_wire *wire = (const struct sim_wire *)base;
    const struct sim_pipe *pipe;
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    if (!pipe->end.status && (!pipe->line || gyre_sim_end_is_carried(pipe->line)))
        return wire->moved + gyre_sim_world_now(wire->world);
    return wire->moved;
}

static int sim_arm(struct gyre_wire *base, struct gyre_alarm *alarm)
{
    const struct sim_wire *wire = (const struct sim_wire *)base;
    alarm->fd = -1;
    const struct sim_pipe *pipe;
    bool due = wire->departed || gyre_sim_world_has_marked(wire->world, wire->rank);
    LIST_FOREACH(pipe, &wire->unmade, in_unmade)
    due |= pipe->due;
    return due ? GYRE_AGAIN : 0;
}

/* -- lines that are made at their first use ---------------------------------------------------- */

static bool sim_broken(struct gyre_wire *base, struct gyre_break *lost)
{
    struct sim_wire *wire = (struct sim_wire *)base;
    struct sim_pipe *pipe;
    LIST_FOREACH(pipe, &wire->unmade, in_unmade)
    if (!pipe->asked && !pipe->end.status) {
        pipe->asked = true;
        *lost = (struct gyre_break){.peer = pipe->end.peer, .first = true};
        return true;
    }
    return false;
}

static int sim_part(struct gyre_pipe *end, int index, uint32_t newer, uint64_t *received)
{
    const struct sim_pipe *pipe = (struct sim_pipe *)end;
    (void)newer;
    *received = 0;
    return end->status ? end->status : pipe->line || index ? GYRE_INVALID : 0;
}

/* Opens this rank's end of the line. Where that is over already, the pipe fails as on a socket that
 * was reset. What was posted leaves at once, also while the rank computes. */
static int sim_renew(struct gyre_pipe *end, int index, int fd, uint32_t number, uint64_t received)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    struct gyre_sim_end *line;
    (void)fd, (void)number, (void)received;
    if (end->status || pipe->line || index)
        return end->status ? end->status : GYRE_INVALID;
    if (gyre_sim_end_open(pipe->wire->world, end->rank, end->peer, pipe, &line)) {
        break_pipe(pipe, GYRE_PEER_LOST);
    } else {
        LIST_REMOVE(pipe, in_unmade);
        pipe->line = line;
        write_to_world(pipe);
    }
    stir(pipe);
    return 0;
}

/* Fails a pipe whose peer left before there was a line. */
static bool sim_gone(struct gyre_pipe *end, int index, bool told)
{
    struct sim_pipe *pipe = (struct sim_pipe *)end;
    if (end->status || pipe->line || index)
        return false;
    gyre_end_leave(end, told);
    stir(pipe);
    return true;
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
                                            .state = gyre_end_state,
                                            .arm = sim_arm,
                                            .broken = sim_broken,
                                            .part = sim_part,
                                            .renew = sim_renew,
                                            .gone = sim_gone,
                                            .moved = sim_moved};
