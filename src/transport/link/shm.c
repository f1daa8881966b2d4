/* The shm driver: messages between processes of one node through a byte ring in each direction.
 *
 *   mine   (this rank writes, the peer reads)        theirs (the other way round)
 *   ┌──────────┬──────────┬──────────────────┐
 *   │ written  │ read     │ ring of bytes    │       written: bytes put into this ring so far
 *   └──────────┴──────────┴──────────────────┘       read:    bytes taken out of the peer's ring
 *
 * Each side writes only its own memory, which the kernel seals against the peer. The two counters
 * of a direction therefore stand in different regions. Counters only grow; a ring byte is reused
 * when the reader's counter has passed it. The rings hold the message protocol of
 * transport/stream/stream.h, without the payload's sum. A long message in memory that both sides
 * map (transport/memory/lookup.h) is read in place and enters no ring. Schedules that are not fused
 * go this way; fused operations never do.
 *
 * Where a rank has a CUDA device, long messages may be a device's memory, and the links are called
 * cuda_ipc:
 *
 *     rank 0, device 0                                      rank 1, device 1
 *     gyre_alloc_device() ── handle, by the watches' socket ──▶ mapped once, kept as a view
 *     send                ── ring: POINT region, offset ──▶ recv: one copy, by device 1
 *                         ◀── ring: TAKEN
 *
 * The copy queue (transport/memory/copy_queue.h) makes the copies. The rings and the stream are the
 * same with and without a device: a receiver does not know where the sender's message lies, and the
 * two ends need not have a device both. Handles pass by the watch, which keeps each view until the
 * owner takes the memory back and no copy uses the view (transport/watch/import.c).
 *
 * In a large node links are made at their first use. The queues of any two ranks have their place
 * in the memory of the node (transport/memory/node_memory.h), empty from the beginning. So an end
 * may send before the other end exists, and the other end hears of it by the call.
 *
 * Tested by tests/link/shm.c, tests/link/cuda_ipc.c and tests/program/collectives/first_use.c. */
#include "transport/link/end.h"

#include "base/copy.h"
#include "transport/memory/copy_queue.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VECTORS 16

struct ring {
    alignas(64) _Atomic uint64_t written;
    alignas(64) _Atomic uint64_t read;
    alignas(64) uint8_t bytes[];
};

struct shm_pipe {
    struct gyre_pipe end;
    struct shm_wire *wire;
    struct gyre_stream *stream; /* the one of `end` */
    struct ring *mine;
    const struct ring *theirs;
    uint64_t capacity;
    uint64_t written, read; /* copies of this rank's counters in `mine` */
    uint64_t consumed;      /* of mine, as last seen */
    bool blocked;           /* the stream has more bytes than the ring has room */
};

struct shm_wire {
    struct shm_pipe **pipe;
    struct gyre_pipe *departed;
    uint32_t rank, pipes, most;
    struct gyre_memory_lookup *lookup;
    const struct gyre_node_memory *node; /* of a large node; NULL: channels bring their queues */
    bool *linked;                        /* of each place of it: this rank has a link, or had */
    uint32_t calls;                      /* at this rank's porch, all answered */
    bool full;                           /* the last poll() had more completions than room */
    uint64_t moved;                      /* calls in which bytes moved, in or out */
};

static void shm_detach(struct gyre_pipe *end)
{
    struct shm_wire *wire = ((struct shm_pipe *)end)->wire;
    uint32_t index = 0;
    while (&wire->pipe[index]->end != end)
        index++;
    wire->pipe[index] = wire->pipe[--wire->pipes];
    gyre_end_depart(end, &wire->departed);
}

static void shm_close(struct gyre_wire *handle)
{
    struct shm_wire *wire = (struct shm_wire *)handle;
    if (!wire)
        return;
    while (wire->pipes)
        shm_detach(&wire->pipe[0]->end);
    gyre_end_forget(&wire->departed);
    free(wire->linked);
    free(wire->pipe);
    free(wire);
}

static int shm_open_wire(const struct gyre_wire_options *options, struct gyre_wire **out,
                         struct gyre_trouble *trouble)
{
    struct shm_wire *wire = calloc(1, sizeof(*wire));
    uint32_t places = options->node ? options->node->places : 0;
    if (wire) {
        wire->pipe = calloc(options->peers + 1, sizeof(*wire->pipe));
        wire->linked = calloc(places + 1, sizeof(*wire->linked));
    }
    if (!wire || !wire->pipe || !wire->linked) {
        shm_close((struct gyre_wire *)wire);
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u shm links", options->peers);
    }
    wire->most = options->peers;
    wire->rank = options->rank;
    wire->lookup = options->lookup;
    wire->node = options->node;
    *out = (struct gyre_wire *)wire;
    return 0;
}

static void shm_describe(const struct gyre_wire *handle, char *text, size_t size)
{
    const struct gyre_memory_lookup *lookup = ((const struct shm_wire *)handle)->lookup;
    const struct gyre_copy_queue *queue = lookup ? lookup->copy_queue : NULL;
    snprintf(text, size, "%s",
             !queue                           ? "shm/ring"
             : gyre_copy_queue_exports(queue) ? "cuda_ipc/exported"
                                              : "cuda_ipc/classic");
}

/* -- links of a large node, made at their first use -------------------------------------------- */

/* Finds the queues of a channel to a peer of a large node, and tells the peer. */
static int find_queues(struct shm_wire *wire, uint32_t peer, struct gyre_region queue[2],
                       struct gyre_trouble *trouble)
{
    const struct gyre_node_memory *node = wire->node;
    const uint32_t place = node && peer < node->ranks ? node->place[peer] : GYRE_NO_PLACE;
    if (place == GYRE_NO_PLACE || place == node->own)
        return gyre_trouble_set(trouble, -ENOTCONN, "rank %u is no peer of this node", peer);
    queue[0] = gyre_node_memory_queue(node, node->own, place);
    queue[1] = gyre_node_memory_queue(node, place, node->own);
    return 0;
}

/* Tells the peer of a new link, unless the peer has made its end first. */
static void call_peer(struct shm_wire *wire, uint32_t peer)
{
    const uint32_t place = wire->node->place[peer];
    wire->linked[place] = true;
    if (!gyre_node_memory_has_called(wire->node, place))
        gyre_node_memory_call(wire->node, place);
}

static bool shm_called(struct gyre_wire *handle, uint32_t *peer)
{
    struct shm_wire *wire = (struct shm_wire *)handle;
    const struct gyre_node_memory *node = wire->node;
    const uint32_t calls = node ? gyre_node_memory_calls(node) : 0;
    for (uint32_t place = 0; calls != wire->calls && place < node->places; place++) {
        if (wire->linked[place] || !gyre_node_memory_has_called(node, place))
            continue;
        wire->linked[place] = true;
        *peer = node->rank[place];
        if (*peer != GYRE_NO_PLACE)
            return true;
    }
    wire->calls = calls;
    return false;
}

/* -- pipes ------------------------------------------------------------------------------------- */

static int check_queues(const struct shm_wire *wire, const struct gyre_channel *channel,
                        struct gyre_trouble *trouble)
{
    const struct gyre_region *mine = channel->mine, *theirs = channel->theirs;
    if (!mine || !theirs || mine->length != theirs->length || mine->length <= sizeof(struct ring))
        return gyre_trouble_set(
            trouble, -EINVAL, "rank %u: a shm link needs two queues of equal size", channel->peer);
    if (wire->pipes == wire->most)
        return gyre_trouble_set(trouble, -ENOSPC, "rank %u: the shm wire was opened for %u links",
                                channel->peer, wire->most);
    return 0;
}

static int attach_queues(struct shm_wire *wire, const struct gyre_channel *channel,
                         struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    int status = check_queues(wire, channel, trouble);
    if (status)
        return status;
    const struct gyre_stream_options options = {
        .posts = GYRE_PIPE_POSTS, .checksum = false, .peer = channel->peer, .lookup = wire->lookup};
    status = gyre_end_create(sizeof(struct shm_pipe), wire->rank, channel->peer, &options, 1, out);
    if (status)
        return gyre_trouble_set(trouble, status, "no memory for a shm link to rank %u",
                                channel->peer);
    struct shm_pipe *pipe = (struct shm_pipe *)*out;
    pipe->wire = wire;
    pipe->stream = pipe->end.stream[0];
    pipe->mine = channel->mine->base;
    pipe->theirs = channel->theirs->base;
    pipe->capacity = channel->mine->length - sizeof(struct ring);
    wire->pipe[wire->pipes++] = pipe;
    return 0;
}

static int shm_attach(struct gyre_wire *handle, const struct gyre_channel *channel,
                      struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    struct shm_wire *wire = (struct shm_wire *)handle;
    struct gyre_region queue[2];
    if (channel->mine || channel->theirs)
        return attach_queues(wire, channel, out, trouble);
    int status = find_queues(wire, channel->peer, queue, trouble);
    if (!status) {
        const struct gyre_channel found = {
            .peer = channel->peer, .mine = &queue[0], .theirs = &queue[1]};
        status = attach_queues(wire, &found, out, trouble);
    }
    if (!status)
        call_peer(wire, channel->peer);
    return status;
}

static void fail_shm_pipe(struct shm_pipe *pipe, int status, const char *what)
{
    gyre_trouble_set(&pipe->end.trouble, status, "shared memory link from rank %u to rank %u: %s",
                     pipe->end.rank, pipe->end.peer, what);
    gyre_end_fail(&pipe->end, status);
}

/* Fails the pipe: the stream has refused a frame of the peer, or a post of this rank. */
static void fail_shm_stream(struct shm_pipe *pipe, int status)
{
    char text[256];
    const char *other =
        status == -ENOMEM ? "no memory for a message on its way to a device" : "bad frame";
    fail_shm_pipe(pipe, status, gyre_end_refusal(&pipe->end, 0, status, other, text));
}

/* -- bytes ------------------------------------------------------------------------------------- */

/* Copies a span of at most `length` bytes into or out of the ring, from position `at`, as one or
 * two pieces. */
static void shm_ring_put(struct shm_pipe *pipe, const uint8_t *from, uint64_t length)
{
    uint64_t at = pipe->written % pipe->capacity;
    uint64_t first = length < pipe->capacity - at ? length : pipe->capacity - at;
    gyre_copy(pipe->mine->bytes + at, from, first);
    if (first < length)
        gyre_copy(pipe->mine->bytes, from + first, length - first);
    pipe->written += length;
}

static void shm_ring_take(struct shm_pipe *pipe, uint8_t *to, uint64_t length)
{
    uint64_t at = pipe->read % pipe->capacity;
    uint64_t first = length < pipe->capacity - at ? length : pipe->capacity - at;
    gyre_copy(to, pipe->theirs->bytes + at, first);
    if (first < length)
        gyre_copy(to + first, pipe->theirs->bytes, length - first);
    pipe->read += length;
}

static uint64_t ring_room(const struct shm_pipe *pipe)
{
    return pipe->capacity - (pipe->written - pipe->consumed);
}

/* Makes room in the ring. The peer's counter moves from core to core, so it is read only when room
 * seems to lack. */
static bool make_ring_room(struct shm_pipe *pipe)
{
    uint64_t consumed = atomic_load_explicit(&pipe->theirs->read, memory_order_acquire);
    if (consumed < pipe->consumed || consumed > pipe->written) {
        fail_shm_pipe(pipe, GYRE_CORRUPT, "the peer's counter is impossible");
        return false;
    }
    pipe->consumed = consumed;
    return ring_room(pipe) > 0;
}

static uint64_t shm_put_vectors(struct shm_pipe *pipe, const struct iovec *iov, int count)
{
    uint64_t before = pipe->written, done = 0;
    for (int i = 0; i < count && (ring_room(pipe) || make_ring_room(pipe));) {
        uint64_t left = iov[i].iov_len - done,
                 part = left < ring_room(pipe) ? left : ring_room(pipe);
        shm_ring_put(pipe, (const uint8_t *)iov[i].iov_base + done, part);
        done = part < left ? done + part : 0;
        i += part == left;
    }
    return pipe->written - before;
}

/* Moves the stream's bytes into the ring, as far as there is room. */
static bool put_out(struct shm_pipe *pipe)
{
    uint64_t before = pipe->written, taken;
    struct iovec iov[VECTORS];
    do {
        int count = gyre_stream_gather(pipe->stream, iov, VECTORS);
        pipe->blocked = count > 0;
        taken = shm_put_vectors(pipe, iov, count);
        gyre_stream_wrote(pipe->stream, taken);
    } while (taken);
    if (pipe->written == before)
        return false;
    atomic_store_explicit(&pipe->mine->written, pipe->written, memory_order_release);
    return true;
}

/* Gives the stream the bytes that the peer has put into its ring. */
static bool take_in(struct shm_pipe *pipe)
{
    uint64_t written = atomic_load_explicit(&pipe->theirs->written, memory_order_acquire);
    uint64_t before = pipe->read, have = written - pipe->read;
    if (written < pipe->read || have > pipe->capacity) {
        fail_shm_pipe(pipe, GYRE_CORRUPT, "the peer's counter is impossible");
        return false;
    }
    while (have && !pipe->end.status) {
        struct iovec iov[2];
        int count = gyre_stream_target(pipe->stream, iov);
        uint64_t given = 0;
        for (int i = 0; i < count && have; i++) {
            uint64_t length = iov[i].iov_len < have ? iov[i].iov_len : have;
            shm_ring_take(pipe, iov[i].iov_base, length);
            have -= length;
            given += length;
        }
        int status = gyre_stream_read(pipe->stream, given);
        if (status)
            fail_shm_stream(pipe, status);
    }
    if (pipe->read == before)
        return false;
    atomic_store_explicit(&pipe->mine->read, pipe->read, memory_order_release);
    return true;
}

/* Copies what the peer has put into memory that both see. */
static bool fetch_from_peer(struct shm_pipe *pipe)
{
    int moved = gyre_stream_fetch(pipe->stream);
    if (moved >= 0)
        return moved;
    fail_shm_pipe(pipe, moved,
                  moved == -ENOENT
                      ? "the peer sends from memory that it does not share: was it freed while "
                        "a message was under way?"
                      : gyre_copy_queue_message(pipe->wire->lookup->copy_queue));
    return true;
}

/* -- the contract ------------------------------------------------------------------------------ */

static int shm_bye(struct gyre_pipe *end)
{
    if (end->status)
        return end->status;
    gyre_end_bye(end);
    put_out((struct shm_pipe *)end);
    return gyre_end_parted(end) ? 0 : GYRE_AGAIN;
}

static int shm_send(struct gyre_pipe *end, const struct gyre_match *match, const void *data,
                    uint64_t length, uint64_t token)
{
    struct shm_pipe *pipe = (struct shm_pipe *)end;
    int status =
        end->status ? end->status : gyre_stream_send(pipe->stream, match, data, length, token);
    if (status == GYRE_MISMATCH)
        fail_shm_stream(pipe, status);
    if (!status)
        pipe->wire->moved += put_out(pipe);
    return status;
}

static int shm_recv(struct gyre_pipe *end, const struct gyre_match *match, void *data,
                    uint64_t length, uint64_t token)
{
    struct shm_pipe *pipe = (struct shm_pipe *)end;
    int status =
        end->status ? end->status : gyre_stream_recv(pipe->stream, match, data, length, token);
    if (status == GYRE_MISMATCH)
        fail_shm_stream(pipe, status);
    if (!status && length > GYRE_EAGER_MAX)
        pipe->wire->moved += put_out(pipe); /* sends its GRANT */
    return status;
}

static bool ring_has_room(struct shm_pipe *pipe, uint64_t bytes)
{
    return ring_room(pipe) >= bytes || (make_ring_room(pipe) && ring_room(pipe) >= bytes);
}

static bool shm_send_now(struct gyre_pipe *end, const struct gyre_match *match, const void *data,
                         uint64_t length)
{
    struct shm_pipe *pipe = (struct shm_pipe *)end;
    uint8_t header[GYRE_FRAME_BYTES];
    if (end->status || length > GYRE_EAGER_MAX || !ring_has_room(pipe, sizeof(header) + length) ||
        !gyre_stream_leave_now(pipe->stream, match, data, length, header, NULL))
        return false;
    shm_ring_put(pipe, header, sizeof(header));
    shm_ring_put(pipe, data, length);
    atomic_store_explicit(&pipe->mine->written, pipe->written, memory_order_release);
    pipe->wire->moved++;
    return true;
}

/* Takes the next message. A fault found here is told by poll(). */
static int take_next(struct shm_pipe *pipe, const struct gyre_match *match, void *data,
                     uint64_t length)
{
    uint64_t written = atomic_load_explicit(&pipe->theirs->written, memory_order_acquire);
    uint64_t before = pipe->read, have = written - before;
    uint8_t header[GYRE_FRAME_BYTES];
    if (have == 0)
        return GYRE_AGAIN;
    if (written < before || have > pipe->capacity || have < sizeof(header) + length)
        return -ENOENT;
    shm_ring_take(pipe, header, sizeof(header));
    if (!gyre_stream_come_now(pipe->stream, match, length, header)) {
        pipe->read = before;
        return -ENOENT;
    }
    shm_ring_take(pipe, data, length);
    atomic_store_explicit(&pipe->mine->read, pipe->read, memory_order_release);
    return 0;
}

static int shm_recv_now(struct gyre_pipe *end, const struct gyre_match *match, void *data,
                        uint64_t length)
{
    struct shm_pipe *pipe = (struct shm_pipe *)end;
    int status = end->status ? -ENOENT : 0;
    if (!status && !gyre_stream_take_now(pipe->stream, match, data, length))
        status = take_next(pipe, match, data, length);
    if (!status && !gyre_stream_silent(pipe->stream)) /* credit is due */
        put_out(pipe);
    pipe->wire->moved += !status;
    return status;
}

static int shm_cancel(struct gyre_pipe *end, uint64_t token)
{
    return gyre_stream_cancel(end->stream[0], token);
}

static int shm_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    struct shm_wire *wire = (struct shm_wire *)handle;
    int count = gyre_end_harvest(&wire->departed, out, max);
    (void)now;
    for (uint32_t i = wire->pipes; i-- > 0 && count < max;) {
        struct shm_pipe *pipe = wire->pipe[i];
        if (!pipe->end.status) {
            wire->moved += take_in(pipe);
            wire->moved += fetch_from_peer(pipe);
            wire->moved += put_out(pipe);
        }
        count += gyre_stream_complete(pipe->stream, out + count, max - count);
    }
    wire->full = count == max;
    return count;
}

static uint64_t shm_moved(const struct gyre_wire *wire)
{
    return ((const struct shm_wire *)wire)->moved;
}

/* Whether poll() would find work here. */
static bool has_work(const struct shm_pipe *pipe)
{
    if (pipe->end.status)
        return false;
    return gyre_stream_pending(pipe->stream) ||
           atomic_load_explicit(&pipe->theirs->written, memory_order_acquire) != pipe->read ||
           (pipe->blocked &&
            atomic_load_explicit(&pipe->theirs->read, memory_order_acquire) != pipe->consumed);
}

/* Prepares to sleep. Peers ring the process's doorbell, so only one last look remains, and what
 * waits for a grant asks for it. */
static int shm_arm(struct gyre_wire *handle, struct gyre_alarm *alarm)
{
    const struct shm_wire *wire = (const struct shm_wire *)handle;
    bool work = wire->full || wire->departed;
    work |= wire->node && gyre_node_memory_calls(wire->node) != wire->calls;
    alarm->fd = -1;
    for (uint32_t i = 0; i < wire->pipes; i++)
        work |= has_work(wire->pipe[i]) || gyre_stream_ask(wire->pipe[i]->stream);
    return work ? GYRE_AGAIN : 0;
}

const struct gyre_driver gyre_driver_shm = {
    .name = "shm",
    .mapped = true,
    .open = shm_open_wire,
    .close = shm_close,
    .describe = shm_describe,
    .attach = shm_attach,
    .called = shm_called,
    .detach = shm_detach,
    .bye = shm_bye,
    .send = shm_send,
    .recv = shm_recv,
    .send_now = shm_send_now,
    .recv_now = shm_recv_now,
    .cancel = shm_cancel,
    .carries = gyre_end_carries,
    .poll = shm_poll,
    .state = gyre_end_state,
    .arm = shm_arm,
    .moved = shm_moved,
};
