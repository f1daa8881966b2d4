/* One pipe: its stream's bytes through the rings.
 *
 *     stream ── gather ──▶ outbox ──▶ a record per request          push()
 *     stream ◀── feed ─── inbox, as far as the record reaches        came()
 *     stream ◀── feed ─── slot                                       came(), or before: look()
 *
 * push() writes as long as there is room in the peer's inbox, in its window and in the send queue;
 * each of the three comes back by a completion, which marks the pipe, so nobody has to ask. A
 * record is read the moment it is told of, because a stream never refuses to read. What is consumed
 * is told with whatever goes out anyway, and alone once a quarter of window or ring is owed.
 *
 *     immediate   │ kind 2 │ consumed records 8 │ length 22 │
 *
 * All of it is the peer's word: nothing is read outside the inbox, and no more is given back than
 * was put out. */
#include "transport/drivers/verbs.h"

#include "base/copy.h"

#define VECTORS        8
#define KIND_SHIFT     30
#define CONSUMED_SHIFT 22
#define CONSUMED_MOST  255u
#define LENGTH_MASK    0x3fffffu

void gyre_verbs_pipe_mark(struct gyre_verbs_pipe *pipe)
{
    if (pipe->busy)
        return;
    pipe->busy = true;
    TAILQ_INSERT_TAIL(&pipe->wire->busy, pipe, in_busy);
}

uint32_t gyre_verbs_pipe_immediate(struct gyre_verbs_pipe *pipe, enum gyre_verbs_kind kind,
                                   uint32_t length)
{
    uint32_t consumed = pipe->taken - pipe->taken_told;
    if (consumed > CONSUMED_MOST)
        consumed = CONSUMED_MOST;
    pipe->taken_told += consumed;
    pipe->read_told = pipe->read;
    return (uint32_t)kind << KIND_SHIFT | consumed << CONSUMED_SHIFT | length;
}

/* -- out --------------------------------------------------------------------------------------- */

/* Bytes that the next record may have; 0: none goes now. */
static uint32_t room(const struct gyre_verbs_pipe *pipe)
{
    uint32_t ring = pipe->theirs.ring;
    uint64_t at = pipe->written % ring, left = ring - (pipe->written - pipe->freed);
    if (pipe->records - pipe->consumed >= pipe->theirs.window || !gyre_verbs_queue_room(pipe))
        return 0;
    if (left > ring - at)
        left = ring - at;
    return left < GYRE_VERBS_RECORD ? (uint32_t)left : GYRE_VERBS_RECORD;
}

static uint32_t copy_vectors(uint8_t *to, uint32_t most, const struct iovec *iov, int count)
{
    uint32_t done = 0;
    for (int i = 0; i < count && done < most; i++) {
        uint32_t left = most - done;
        uint32_t part = iov[i].iov_len < left ? (uint32_t)iov[i].iov_len : left;
        gyre_copy(to + done, iov[i].iov_base, part);
        done += part;
    }
    return done;
}

static void count_record(struct gyre_verbs_pipe *pipe, uint32_t length)
{
    pipe->written += length;
    pipe->end_of[pipe->records++ % GYRE_VERBS_WINDOW] = pipe->written;
    pipe->wire->moved += length;
}

static void put_record(struct gyre_verbs_pipe *pipe, enum gyre_verbs_kind kind, uint32_t length)
{
    uint64_t at = pipe->written % pipe->theirs.ring;
    count_record(pipe, length);
    gyre_verbs_queue_write(pipe, kind, at, length);
}

static bool push_records(struct gyre_verbs_pipe *pipe)
{
    struct iovec iov[VECTORS];
    uint32_t before = pipe->records;
    for (;;) {
        int count = gyre_stream_gather(pipe->stream, iov, VECTORS);
        uint32_t most = count ? room(pipe) : 0;
        if (!most)
            break;
        uint8_t *to = pipe->outbox + pipe->written % pipe->theirs.ring;
        uint32_t length = copy_vectors(to, most, iov, count);
        put_record(pipe, GYRE_VERBS_RECORD_CAME, length);
        gyre_stream_wrote(pipe->stream, length);
    }
    return pipe->records != before;
}

bool gyre_verbs_pipe_send_now(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token)
{
    uint8_t *to = pipe->outbox + pipe->written % pipe->theirs.ring;
    if (length > GYRE_STREAM_NOW_MOST || room(pipe) < GYRE_STREAM_NOW_ROOM)
        return false;
    uint32_t frame = gyre_stream_send_now(pipe->stream, match, data, length, token, to);
    if (!frame)
        return false;
    if (gyre_verbs_slot_fits(pipe, frame)) {
        gyre_verbs_slot_put(pipe, pipe->records, to, frame);
        count_record(pipe, frame);
    } else {
        put_record(pipe, GYRE_VERBS_RECORD_CAME, frame);
    }
    gyre_verbs_queue_flush(pipe);
    return true;
}

bool gyre_verbs_pipe_parted(const struct gyre_verbs_pipe *pipe)
{
    return gyre_stream_said_bye(pipe->stream) && gyre_stream_heard_bye(pipe->stream);
}

/* Whether the peer might wait for it. */
static bool owes_news(const struct gyre_verbs_pipe *pipe)
{
    return (pipe->taken - pipe->taken_told) * 4 >= pipe->mine.window ||
           (pipe->read - pipe->read_told) * 4 >= pipe->mine.ring;
}

bool gyre_verbs_pipe_push(struct gyre_verbs_pipe *pipe)
{
    if (!pipe->status && pipe->detour.state > GYRE_VERBS_BREAKING)
        return gyre_verbs_detour_push(pipe);
    if (pipe->status || pipe->broken)
        return false;
    bool moved = false;
    if (!gyre_stream_silent(pipe->stream) || pipe->writing) {
        moved = push_records(pipe);
        moved |= gyre_verbs_reach_push(pipe);
    }
    if (owes_news(pipe) && !gyre_verbs_pipe_parted(pipe) && gyre_verbs_queue_room(pipe))
        gyre_verbs_queue_write(pipe, GYRE_VERBS_ONLY_NEWS, 0, 0);
    gyre_verbs_queue_flush(pipe);
    return moved;
}

/* -- in ---------------------------------------------------------------------------------------- */

static bool hear_news(struct gyre_verbs_pipe *pipe, uint32_t consumed)
{
    if (consumed > pipe->records - pipe->consumed) {
        gyre_verbs_fail(pipe, GYRE_CORRUPT, "the peer has consumed more than was sent");
        return false;
    }
    pipe->consumed += consumed;
    if (consumed)
        pipe->freed = pipe->end_of[(pipe->consumed - 1) % GYRE_VERBS_WINDOW];
    return true;
}

static void check_probe(struct gyre_verbs_pipe *pipe, const uint8_t *from, uint32_t length)
{
    bool good = !pipe->probe_came;
    for (uint32_t i = 0; i < length; i++)
        good &= from[i] == gyre_verbs_probe_byte(&pipe->theirs, i);
    pipe->probe_came = true;
    if (!good)
        gyre_verbs_fail(pipe, GYRE_CORRUPT, "the test write brought other bytes");
}

void gyre_verbs_pipe_take(struct gyre_verbs_pipe *pipe, const uint8_t *record, uint32_t length)
{
    int status = gyre_stream_feed(pipe->stream, record, length);
    pipe->read += length;
    pipe->wire->moved += length;
    if (status)
        gyre_verbs_fail_stream(pipe, status);
}

static void take_record(struct gyre_verbs_pipe *pipe, enum gyre_verbs_kind kind, uint32_t length)
{
    uint64_t at = pipe->read % pipe->mine.ring;
    if (!length || length > GYRE_VERBS_RECORD || length > pipe->mine.ring - at || pipe->ahead) {
        gyre_verbs_fail(pipe, GYRE_CORRUPT, "the peer tells of a record that cannot be");
        return;
    }
    pipe->taken++;
    if (kind != GYRE_VERBS_PROBE) {
        gyre_verbs_pipe_take(pipe, pipe->inbox + at, length);
        return;
    }
    check_probe(pipe, pipe->inbox + at, length);
    pipe->read += length;
}

/* It is there, unless it has been taken already. */
static void take_slot(struct gyre_verbs_pipe *pipe, uint32_t length)
{
    uint8_t frame[GYRE_VERBS_SLOT];
    uint32_t number = pipe->taken++;
    if (pipe->ahead) {
        pipe->ahead--;
        return;
    }
    if (gyre_verbs_slot_read(pipe, number, frame) != length)
        gyre_verbs_fail(pipe, GYRE_CORRUPT, "the peer tells of a slot that it has not written");
    else
        gyre_verbs_pipe_take(pipe, frame, length);
}

void gyre_verbs_pipe_came(struct gyre_verbs_pipe *pipe, uint32_t immediate)
{
    enum gyre_verbs_kind kind = (enum gyre_verbs_kind)(immediate >> KIND_SHIFT);
    gyre_verbs_pipe_mark(pipe);
    if (!hear_news(pipe, immediate >> CONSUMED_SHIFT & CONSUMED_MOST) ||
        kind == GYRE_VERBS_ONLY_NEWS)
        return;
    if (kind == GYRE_VERBS_RECORD_CAME && immediate & GYRE_VERBS_IN_SLOT) {
        take_slot(pipe, immediate & LENGTH_MASK & ~GYRE_VERBS_IN_SLOT);
        return;
    }
    if (kind != GYRE_VERBS_ARRIVED) {
        take_record(pipe, kind, immediate & LENGTH_MASK);
        return;
    }
    pipe->arrived++;
    int status = gyre_stream_arrived(pipe->stream, immediate & LENGTH_MASK);
    if (status)
        gyre_verbs_fail_stream(pipe, status);
}

/* -- the test write ---------------------------------------------------------------------------- */

void gyre_verbs_pipe_probe(struct gyre_verbs_pipe *pipe, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        pipe->outbox[i] = gyre_verbs_probe_byte(&pipe->mine, i);
    put_record(pipe, GYRE_VERBS_PROBE, length);
    gyre_verbs_queue_flush(pipe);
}
