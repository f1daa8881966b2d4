/* The shm driver: messages between processes of one node through a byte ring in each direction.
 *
 *   mine   (this rank writes, the peer reads)        theirs (the other way round)
 *   ┌──────────┬──────────┬──────────────────┐
 *   │ written  │ read     │ ring of bytes    │       written: bytes put into this ring so far
 *   └──────────┴──────────┴──────────────────┘       read:    bytes taken out of the peer's ring
 *
 * Each side writes only its own memory, which the kernel seals against the peer, so both counters
 * of a direction stand in different regions. Counters only grow; a ring byte is reused when the
 * reader's counter has passed it. What is in the rings is the message protocol of transport/stream/stream.h, without
 * the payload's sum; what both sides can map is read in place (transport/memory/lookup.h) and never enters a ring. Where
 * a rank has a device, the cuda_ipc driver is in front of this one and has the same rings.
 * This path serves schedules that are not fused; fused operations never touch it. */
#include "transport/link/shm.h"

#include "base/copy.h"
#include "transport/memory/copy_queue.h"
#include "transport/stream/frame.h"
#include "transport/stream/signature.h"
#include "transport/stream/stream.h"

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

struct gyre_pipe {
    struct gyre_wire *wire;
    uint32_t peer;
    struct gyre_stream *stream;
    struct ring *mine;
    const struct ring *theirs;
    uint64_t capacity;
    uint64_t written, read; /* own copies of what stands in `mine` */
    uint64_t consumed;      /* of mine, as last seen */
    bool blocked;           /* the stream wants to say more than there is room for */
    bool detached;          /* only its completions are left */
    int status;
    struct gyre_trouble trouble;
};

struct gyre_wire {
    struct gyre_pipe **pipe;
    uint32_t rank, pipes, most;
    const struct gyre_memory_lookup *lookup;
    bool full;      /* the last poll() had more to tell than it was given room for */
    uint64_t moved; /* calls in which bytes moved, in or out */
};

int gyre_shm_open(const struct gyre_wire_options *options, struct gyre_wire **out,
                  struct gyre_trouble *trouble)
{
    struct gyre_wire *wire = calloc(1, sizeof(*wire));
    if (wire)
        wire->pipe = calloc(options->peers + 1, sizeof(*wire->pipe));
    if (!wire || !wire->pipe) {
        free(wire);
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u shm links", options->peers);
    }
    wire->most = options->peers;
    wire->rank = options->rank;
    wire->lookup = options->lookup;
    *out = wire;
    return 0;
}

const struct gyre_memory_lookup *gyre_shm_lookup(const struct gyre_wire *wire)
{
    return wire->lookup;
}

struct gyre_stream *gyre_shm_stream(struct gyre_pipe *pipe)
{
    return pipe->status ? NULL : pipe->stream;
}

static void drop_shm_pipe(struct gyre_wire *wire, uint32_t index)
{
    gyre_stream_destroy(wire->pipe[index]->stream);
    free(wire->pipe[index]);
    wire->pipe[index] = wire->pipe[--wire->pipes];
}

/* The memory is not touched any more; the struct stays until poll() has told the last completion.
 */
void gyre_shm_detach(struct gyre_pipe *pipe)
{
    pipe->detached = true;
    if (!pipe->status)
        gyre_stream_fail(pipe->stream, -ECANCELED);
    pipe->status = -ECANCELED;
}

void gyre_shm_close(struct gyre_wire *wire)
{
    if (!wire)
        return;
    while (wire->pipes)
        drop_shm_pipe(wire, 0);
    free(wire->pipe);
    free(wire);
}

static const char *shm_serves(const struct gyre_wire *wire)
{
    (void)wire;
    return "ring";
}

int gyre_shm_attach(struct gyre_wire *wire, const struct gyre_channel *channel,
                    struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    if (!channel->mine || !channel->theirs || channel->mine->length != channel->theirs->length ||
        channel->mine->length <= sizeof(struct ring))
        return gyre_trouble_set(
            trouble, -EINVAL, "rank %u: a shm link needs two queues of equal size", channel->peer);
    if (wire->pipes == wire->most)
        return gyre_trouble_set(trouble, -ENOSPC, "rank %u: the shm wire was opened for %u links",
                                channel->peer, wire->most);
    struct gyre_pipe *pipe = calloc(1, sizeof(*pipe));
    struct gyre_stream_options options = {
        .posts = GYRE_SHM_POSTS, .checksum = false, .peer = channel->peer, .lookup = wire->lookup};
    int status = pipe ? gyre_stream_create(&options, &pipe->stream) : -ENOMEM;
    if (status) {
        free(pipe);
        return gyre_trouble_set(trouble, status, "no memory for a shm link to rank %u",
                                channel->peer);
    }
    pipe->wire = wire;
    pipe->peer = channel->peer;
    pipe->mine = channel->mine->base;
    pipe->theirs = channel->theirs->base;
    pipe->capacity = channel->mine->length - sizeof(struct ring);
    wire->pipe[wire->pipes++] = pipe;
    *out = pipe;
    return 0;
}

static void fail_shm_pipe(struct gyre_pipe *pipe, int status, const char *what)
{
    if (pipe->status)
        return;
    pipe->status = status;
    gyre_trouble_set(&pipe->trouble, status, "shared memory link from rank %u to rank %u: %s",
                     pipe->wire->rank, pipe->peer, what);
    gyre_stream_fail(pipe->stream, status);
}

/* The stream has refused what came, or what this rank posted. */
static void fail_stream(struct gyre_pipe *pipe, int status)
{
    struct gyre_match mine;
    uint64_t theirs;
    char text[256] = "bad frame";
    if (status == -ENOMEM)
        snprintf(text, sizeof(text), "no memory for a message on its way to a device");
    if (status == GYRE_MISMATCH) {
        gyre_stream_mismatch(pipe->stream, &mine, &theirs);
        gyre_signature_disagreement(text, sizeof(text), pipe->wire->rank, pipe->peer, &mine,
                                    theirs);
    }
    fail_shm_pipe(pipe, status, text);
}

/* -- bytes ------------------------------------------------------------------------------------- */

/* A span of the ring from position `at`, at most `length`, as one or two pieces; copies in or out.
 */
static void shm_ring_put(struct gyre_pipe *pipe, const uint8_t *from, uint64_t length)
{
    uint64_t at = pipe->written % pipe->capacity;
    uint64_t first = length < pipe->capacity - at ? length : pipe->capacity - at;
    gyre_copy(pipe->mine->bytes + at, from, first);
    if (first < length)
        gyre_copy(pipe->mine->bytes, from + first, length - first);
    pipe->written += length;
}

static void shm_ring_take(struct gyre_pipe *pipe, uint8_t *to, uint64_t length)
{
    uint64_t at = pipe->read % pipe->capacity;
    uint64_t first = length < pipe->capacity - at ? length : pipe->capacity - at;
    gyre_copy(to, pipe->theirs->bytes + at, first);
    if (first < length)
        gyre_copy(to + first, pipe->theirs->bytes, length - first);
    pipe->read += length;
}

static uint64_t ring_room(const struct gyre_pipe *pipe)
{
    return pipe->capacity - (pipe->written - pipe->consumed);
}

/* The peer's counter is looked at when there seems to be no room: it moves from core to core. */
static bool make_ring_room(struct gyre_pipe *pipe)
{
    uint64_t consumed = atomic_load_explicit(&pipe->theirs->read, memory_order_acquire);
    if (consumed < pipe->consumed || consumed > pipe->written) {
        fail_shm_pipe(pipe, GYRE_CORRUPT, "the peer's counter is impossible");
        return false;
    }
    pipe->consumed = consumed;
    return ring_room(pipe) > 0;
}

static uint64_t shm_put_vectors(struct gyre_pipe *pipe, const struct iovec *iov, int count)
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

/* Moves what the stream wants to say into the ring, as far as there is room. */
static bool put_out(struct gyre_pipe *pipe)
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

/* Gives the stream what the peer has put into its ring. */
static bool take_in(struct gyre_pipe *pipe)
{
    uint64_t written = atomic_load_explicit(&pipe->theirs->written, memory_order_acquire);
    uint64_t before = pipe->read, have = written - pipe->read;
    if (written < pipe->read || have > pipe->capacity) {
        fail_shm_pipe(pipe, GYRE_CORRUPT, "the peer's counter is impossible");
        return false;
    }
    while (have && !pipe->status) {
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
            fail_stream(pipe, status);
    }
    if (pipe->read == before)
        return false;
    atomic_store_explicit(&pipe->mine->read, pipe->read, memory_order_release);
    return true;
}

/* What the peer has put into memory that both see. */
static bool fetch_from_peer(struct gyre_pipe *pipe)
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

int gyre_shm_bye(struct gyre_pipe *pipe)
{
    if (pipe->status)
        return pipe->status;
    gyre_stream_bye(pipe->stream);
    put_out(pipe);
    return gyre_stream_said_bye(pipe->stream) && gyre_stream_heard_bye(pipe->stream) ? 0
                                                                                     : GYRE_AGAIN;
}

int gyre_shm_send(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                  uint64_t length, uint64_t token)
{
    int status =
        pipe->status ? pipe->status : gyre_stream_send(pipe->stream, match, data, length, token);
    if (status == GYRE_MISMATCH)
        fail_stream(pipe, status);
    if (!status)
        pipe->wire->moved += put_out(pipe);
    return status;
}

int gyre_shm_recv(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                  uint64_t length, uint64_t token)
{
    int status =
        pipe->status ? pipe->status : gyre_stream_recv(pipe->stream, match, data, length, token);
    if (status == GYRE_MISMATCH)
        fail_stream(pipe, status);
    if (!status && length > GYRE_EAGER_MAX)
        pipe->wire->moved += put_out(pipe); /* its GRANT */
    return status;
}

static bool ring_has_room(struct gyre_pipe *pipe, uint64_t bytes)
{
    return ring_room(pipe) >= bytes || (make_ring_room(pipe) && ring_room(pipe) >= bytes);
}

bool gyre_shm_send_now(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                       uint64_t length)
{
    uint8_t header[GYRE_FRAME_BYTES];
    if (pipe->status || length > GYRE_EAGER_MAX || !ring_has_room(pipe, sizeof(header) + length) ||
        !gyre_stream_leave_now(pipe->stream, match, data, length, header))
        return false;
    shm_ring_put(pipe, header, sizeof(header));
    shm_ring_put(pipe, data, length);
    atomic_store_explicit(&pipe->mine->written, pipe->written, memory_order_release);
    pipe->wire->moved++;
    return true;
}

/* What is there, and looks wrong, is told by poll(). */
static int take_next(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
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

int gyre_shm_recv_now(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                      uint64_t length)
{
    int status = pipe->status ? -ENOENT : 0;
    if (!status && !gyre_stream_take_now(pipe->stream, match, data, length))
        status = take_next(pipe, match, data, length);
    if (!status && !gyre_stream_silent(pipe->stream)) /* credit is due */
        put_out(pipe);
    pipe->wire->moved += !status;
    return status;
}

int gyre_shm_cancel(struct gyre_pipe *pipe, uint64_t token)
{
    return gyre_stream_cancel(pipe->stream, token);
}

int gyre_shm_poll(struct gyre_wire *wire, uint64_t now, struct gyre_completion *out, int max)
{
    int count = 0;
    (void)now;
    for (uint32_t i = wire->pipes; i-- > 0 && count < max;) {
        struct gyre_pipe *pipe = wire->pipe[i];
        if (!pipe->status) {
            wire->moved += take_in(pipe);
            wire->moved += fetch_from_peer(pipe);
            wire->moved += put_out(pipe);
        }
        count += gyre_stream_complete(pipe->stream, out + count, max - count);
        if (pipe->detached && count < max)
            drop_shm_pipe(wire, i);
    }
    wire->full = count == max;
    return count;
}

int gyre_shm_state(const struct gyre_pipe *pipe, struct gyre_trouble *trouble)
{
    if (pipe->status && trouble)
        *trouble = pipe->trouble;
    return pipe->status;
}

uint64_t gyre_shm_moved(const struct gyre_wire *wire)
{
    return wire->moved;
}

/* Peers ring the process's doorbell; what remains is to look once more. */
int gyre_shm_arm(struct gyre_wire *wire, struct gyre_alarm *alarm)
{
    alarm->fd = -1;
    if (wire->full)
        return GYRE_AGAIN;
    for (uint32_t i = 0; i < wire->pipes; i++) {
        struct gyre_pipe *pipe = wire->pipe[i];
        if (pipe->status)
            continue;
        if (gyre_stream_pending(pipe->stream))
            return GYRE_AGAIN;
        if (atomic_load_explicit(&pipe->theirs->written, memory_order_acquire) != pipe->read)
            return GYRE_AGAIN;
        if (pipe->blocked &&
            atomic_load_explicit(&pipe->theirs->read, memory_order_acquire) != pipe->consumed)
            return GYRE_AGAIN;
    }
    return 0;
}

const struct gyre_driver gyre_driver_shm = {
    .name = "shm",
    .open = gyre_shm_open,
    .serves = shm_serves,
    GYRE_SHM_ENTRIES,
};
