/* One pipe: its stream's bytes through the rings.
 *
 *     stream ── gather ──▶ outbox ──▶ a record per request          push()
 *     stream ◀── feed ─── inbox, as far as the record reaches        came()
 *     stream ◀── feed ─── slot                                       came(), or before: look()
 *
 * push() writes as long as there is room in the peer's inbox, in its window and in the send queue.
 * Each of the three comes back by a completion, which marks the pipe. A record is read as soon as
 * its completion comes, because a stream never refuses to read. Consumed records are acknowledged
 * with whatever goes out anyway, and alone once a quarter of window or ring is owed.
 *
 * A long message whose share on another queue pair is still missing holds up what came behind it on
 * the first one. So messages are taken in the order in which they were sent, over any number of
 * queue pairs.
 *
 * Every number of an immediate is the peer's word: nothing is read outside the inbox, and no more
 * is given back than was put out.
 * Tested by tests/unit/transport/link/verbs/offer_test.c and tests/link/verbs.c. */
#include "transport/link/verbs/peer.h"

#include "base/copy.h"
#include "transport/stream/frame.h"

#include <infiniband/verbs.h>
#include <string.h>

#define VECTORS     8
#define WORD_MASK   0x3fffffu
#define LENGTH_MASK 0xffffu

/* -- out --------------------------------------------------------------------------------------- */

/* Bytes that the next record may have; 0: there is no room now. */
static uint32_t pipe_room(const struct gyre_verbs_pipe *pipe)
{
    uint32_t ring = pipe->queue->theirs.ring;
    uint64_t at = pipe->written % ring, left = ring - (pipe->written - pipe->freed);
    if (pipe->records - pipe->consumed >= pipe->queue->theirs.window ||
        !gyre_verbs_queue_room(pipe->queue))
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

/* Writes outbox bytes [at, at + length) to the same place of the peer's inbox. */
static void write_inbox(struct gyre_verbs_pipe *pipe, enum gyre_verbs_kind kind, uint64_t at,
                        uint32_t length, uint32_t word)
{
    const struct gyre_verbs_end *theirs = &pipe->queue->theirs;
    gyre_verbs_queue_put(pipe->queue,
                         &(struct gyre_verbs_request){.from = pipe->outbox + at,
                                                      .key = pipe->wire->outboxes->lkey,
                                                      .length = length,
                                                      .to = theirs->inbox + at,
                                                      .to_key = theirs->key,
                                                      .tells = true,
                                                      .kind = kind,
                                                      .word = word});
}

static void put_record(struct gyre_verbs_pipe *pipe, uint32_t length)
{
    uint64_t at = pipe->written % pipe->queue->theirs.ring;
    count_record(pipe, length);
    write_inbox(pipe, GYRE_VERBS_RECORD_CAME, at, length, length);
}

/* Puts a record that is one frame. */
static void put_whole_frame(struct gyre_verbs_pipe *pipe, uint32_t length)
{
    uint64_t at = pipe->written % pipe->queue->theirs.ring;
    uint32_t advance = gyre_verbs_head_advance(pipe, pipe->outbox + at, length);
    uint32_t skipped = advance ? GYRE_FRAME_BYTES : 0;
    memcpy(pipe->head_out, pipe->outbox + at, sizeof pipe->head_out);
    count_record(pipe, length);
    write_inbox(pipe, GYRE_VERBS_RECORD_CAME, at + skipped, length - skipped,
                length | GYRE_VERBS_WHOLE | advance << GYRE_VERBS_ADVANCE_SHIFT);
}

static bool push_records(struct gyre_verbs_pipe *pipe)
{
    struct iovec iov[VECTORS];
    uint32_t before = pipe->records;
    for (;;) {
        int count = gyre_stream_gather(pipe->end.stream[0], iov, VECTORS);
        uint32_t most = count ? pipe_room(pipe) : 0;
        if (!most)
            break;
        uint8_t *to = pipe->outbox + pipe->written % pipe->queue->theirs.ring;
        uint32_t length = copy_vectors(to, most, iov, count);
        put_record(pipe, length);
        gyre_stream_wrote(pipe->end.stream[0], length);
    }
    return pipe->records != before;
}

bool gyre_verbs_pipe_send_now(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token)
{
    uint8_t *to = pipe->outbox + pipe->written % pipe->queue->theirs.ring;
    uint64_t most = GYRE_FRAME_BYTES + length; /* or a slot's, with its trailer */
    if (pipe_room(pipe) < (most < GYRE_VERBS_SLOT ? GYRE_VERBS_SLOT : most))
        return false;
    uint32_t frame = gyre_stream_send_now(pipe->end.stream[0], match, data, length, token, to);
    if (!frame)
        return false;
    if (gyre_verbs_slot_fits(pipe, frame)) {
        gyre_verbs_slot_put(pipe, pipe->records, to, frame);
        count_record(pipe, frame);
    } else {
        put_whole_frame(pipe, frame);
    }
    gyre_verbs_flush(pipe->queue);
    return true;
}

/* Whether the peer might wait for an acknowledgement. */
static bool owes_ack(const struct gyre_verbs_pipe *pipe)
{
    const struct gyre_verbs_end *mine = &pipe->queue->mine;
    return (pipe->taken - pipe->taken_told) * 4 >= mine->window ||
           (pipe->read - pipe->read_told) * 4 >= mine->ring;
}

bool gyre_verbs_pipe_push(struct gyre_verbs_pipe *pipe)
{
    if (!pipe->end.status && pipe->fallback.state > GYRE_VERBS_BREAKING)
        return gyre_verbs_fallback_push(pipe);
    if (pipe->end.status || pipe->broken)
        return false;
    bool moved = false;
    if (!gyre_stream_silent(pipe->end.stream[0]) || pipe->writing) {
        moved = push_records(pipe);
        moved |= gyre_verbs_remote_write_push(pipe);
    }
    if (owes_ack(pipe) && !gyre_end_parted(&pipe->end) && gyre_verbs_queue_room(pipe->queue))
        write_inbox(pipe, GYRE_VERBS_ONLY_ACK, 0, 0, 0);
    for (uint32_t i = 0; i < pipe->ways; i++)
        gyre_verbs_flush(pipe->way[i]);
    return moved;
}

/* -- in ---------------------------------------------------------------------------------------- */

static bool take_ack(struct gyre_verbs_pipe *pipe, uint32_t consumed)
{
    if (consumed > pipe->records - pipe->consumed) {
        gyre_verbs_fail(pipe->queue, GYRE_CORRUPT, "the peer has consumed more than was sent");
        return false;
    }
    pipe->consumed += consumed;
    if (consumed)
        pipe->freed = pipe->end_of[(pipe->consumed - 1) % GYRE_VERBS_WINDOW];
    return true;
}

static void feed_stream(struct gyre_verbs_pipe *pipe, const uint8_t *record, uint32_t length)
{
    int status = gyre_stream_feed(pipe->end.stream[0], record, length);
    pipe->read += length;
    pipe->wire->moved += length;
    if (status)
        gyre_verbs_fail_stream(pipe, status);
}

static void take_record(struct gyre_verbs_pipe *pipe, uint32_t word)
{
    uint32_t ring = pipe->queue->mine.ring, length = word & LENGTH_MASK;
    uint32_t advance = word >> GYRE_VERBS_ADVANCE_SHIFT & GYRE_VERBS_ADVANCE;
    bool whole = word & GYRE_VERBS_WHOLE;
    uint8_t *record = pipe->inbox + pipe->read % ring;
    if (!length || length > GYRE_VERBS_RECORD || length > ring - pipe->read % ring || pipe->ahead ||
        (whole ? length < GYRE_FRAME_BYTES : advance) ||
        (advance && !gyre_verbs_head_write(pipe->head_in, advance, record))) {
        gyre_verbs_fail(pipe->queue, GYRE_CORRUPT, "the peer tells of a record that cannot be");
        return;
    }
    if (whole)
        memcpy(pipe->head_in, record, sizeof pipe->head_in);
    pipe->taken++;
    feed_stream(pipe, record, length);
}

/* Takes the record from its slot, unless look() has. */
static void take_slot(struct gyre_verbs_pipe *pipe, uint32_t length)
{
    uint8_t frame[GYRE_VERBS_SLOT];
    uint32_t number = pipe->taken++;
    if (pipe->ahead) {
        pipe->ahead--;
        return;
    }
    if (gyre_verbs_slot_read(pipe, number, frame) != length)
        gyre_verbs_fail(pipe->queue, GYRE_CORRUPT,
                        "the peer tells of a slot that it has not written");
    else
        feed_stream(pipe, frame, length);
}

bool gyre_verbs_pipe_look(struct gyre_verbs_pipe *pipe)
{
    uint8_t frame[GYRE_VERBS_SLOT];
    uint32_t before = pipe->ahead;
    while (!pipe->end.status && !pipe->broken && pipe->ahead < pipe->queue->mine.window) {
        uint32_t length = gyre_verbs_slot_read(pipe, pipe->taken + pipe->ahead, frame);
        if (!length)
            break;
        pipe->ahead++;
        pipe->wire->seen++;
        feed_stream(pipe, frame, length);
    }
    return pipe->ahead != before;
}

static void take_message(struct gyre_verbs_pipe *pipe, uint32_t number)
{
    pipe->arrived++;
    int status = gyre_verbs_remote_write_arrived(pipe, number);
    if (status)
        gyre_verbs_fail_stream(pipe, status);
}

/* -- in their order ---------------------------------------------------------------------------- */

static bool has_all_shares(struct gyre_verbs_pipe *pipe, uint32_t immediate)
{
    struct gyre_stream_arrival arrival;
    if (immediate >> GYRE_VERBS_KIND_SHIFT != GYRE_VERBS_ARRIVED || pipe->ways == 1 ||
        !gyre_stream_arrival_of(pipe->end.stream[0], immediate & WORD_MASK, &arrival))
        return true;
    return gyre_verbs_remote_write_is_whole(pipe, arrival.length, false);
}

static void take_immediate(struct gyre_verbs_pipe *pipe, uint32_t immediate)
{
    if (immediate >> GYRE_VERBS_KIND_SHIFT == GYRE_VERBS_ARRIVED)
        take_message(pipe, immediate & WORD_MASK);
    else if (immediate & GYRE_VERBS_IN_SLOT)
        take_slot(pipe, immediate & WORD_MASK & ~GYRE_VERBS_IN_SLOT);
    else
        take_record(pipe, immediate & WORD_MASK);
}

static void take_held(struct gyre_verbs_pipe *pipe)
{
    while (!pipe->end.status && pipe->held_done != pipe->held_next &&
           has_all_shares(pipe, pipe->held[pipe->held_done % GYRE_VERBS_HELD]))
        take_immediate(pipe, pipe->held[pipe->held_done++ % GYRE_VERBS_HELD]);
}

static void hold_message(struct gyre_verbs_pipe *pipe, uint32_t immediate)
{
    if (pipe->held_next - pipe->held_done == GYRE_VERBS_HELD)
        gyre_verbs_fail(pipe->queue, GYRE_CORRUPT, "the peer has more under way than it may");
    else
        pipe->held[pipe->held_next++ % GYRE_VERBS_HELD] = immediate;
}

static void count_share(struct gyre_verbs_queue *queue, enum gyre_verbs_kind kind)
{
    if (kind != GYRE_VERBS_ARRIVED || queue->shares_come++ == GYRE_VERBS_PLACES)
        gyre_verbs_fail(queue, GYRE_CORRUPT, "the peer tells of a part that cannot be");
}

/* meet.c compares the bytes. */
static void take_test(struct gyre_verbs_queue *queue, uint32_t length)
{
    if (queue->proven || queue->test_came || length != GYRE_VERBS_TEST)
        gyre_verbs_fail(queue, GYRE_CORRUPT, "other bytes have come than were sent");
    queue->test_came = true;
}

void gyre_verbs_pipe_came(struct gyre_verbs_queue *queue, uint32_t immediate)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    enum gyre_verbs_kind kind = (enum gyre_verbs_kind)(immediate >> GYRE_VERBS_KIND_SHIFT);
    gyre_verbs_mark(pipe);
    if (!take_ack(pipe, immediate >> GYRE_VERBS_CONSUMED_SHIFT & GYRE_VERBS_CONSUMED_MOST) ||
        kind == GYRE_VERBS_ONLY_ACK)
        return;
    if (kind == GYRE_VERBS_PROBE)
        take_test(queue, immediate & WORD_MASK);
    else if (queue != pipe->queue)
        count_share(queue, kind);
    else
        hold_message(pipe, immediate);
    take_held(pipe);
}
