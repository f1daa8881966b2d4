/* Short messages without a post, for a carrier that can act at once:
 *
 *     leave_now()   nothing else to say, and credit ──▶ a header, and the carrier brings both
 *     take_now()    the message has come already    ──▶ out of the store
 *     come_now()    the next header is this message's ──▶ the carrier copies the payload itself
 *     read_now()    the next frame is this message    ──▶ out of read-ahead
 *
 * No record is made and nothing completes. So the facts of a record must be known beforehand: no
 * other message of that name and no other fingerprint of that operation is alive here, and no
 * message goes first. All other messages are posted. A message of which a full carrier took only
 * the beginning is posted, too: its rest is offered, and its post takes the rest over. */
#include "transport/stream/inside.h"

#include "base/copy.h"

#include <assert.h>
#include <string.h>

_Static_assert(GYRE_FRAME_HEAD_MOST + GYRE_STREAM_REST_MOST <= GYRE_STREAM_STAGE_BYTES,
               "the stage has room for a rest");
_Static_assert(GYRE_FRAME_BYTES == 32, "stream.h says so of come_now()");

static bool is_open_now(const struct gyre_stream *stream)
{
    return !stream->status && !stream->out.bye_asked && !stream->in.bye_heard;
}

static struct gyre_frame frame_of(const struct gyre_stream *stream, const struct gyre_match *match,
                                  uint64_t length)
{
    return (struct gyre_frame){.kind = GYRE_FRAME_DATA,
                               .length = (uint32_t)length,
                               .epoch = stream->epoch,
                               .match = *match};
}

bool gyre_stream_leave_now(struct gyre_stream *stream, const struct gyre_match *match,
                           const void *data, uint64_t length, uint8_t *header, uint8_t *cipher)
{
    if (length > stream->eager || (gyre_stream_encrypts(stream) && !cipher) || stream->out.begun ||
        !is_open_now(stream) || !gyre_stream_silent(stream) ||
        !gyre_stream_has_credit(stream, length) || gyre_stream_differs(stream, match))
        return false;
    struct gyre_frame frame = frame_of(stream, match, length);
    stream->credit.spent += length + GYRE_UNEXPECTED_CHARGE;
    gyre_stream_write_head(stream, &frame, data, header);
    if (stream->seal_out)
        gyre_stream_seal(stream, header, data, gyre_stream_encrypts(stream) ? cipher : NULL,
                         (uint32_t)length);
    return true;
}

/* Offers the rest of a message. Nothing else is offered, so the stage is empty. */
void gyre_stream_leave_rest(struct gyre_stream *stream, const struct gyre_match *match,
                            const void *data, uint64_t length, const uint8_t *header, size_t bytes)
{
    struct gyre_outgoing *out = &stream->out;
    if (bytes == 0) {
        stream->credit.spent -= length + GYRE_UNEXPECTED_CHARGE;
        if (stream->seal_out)
            gyre_seal_return_to(stream->seal_out, gyre_seal_number(stream->seal_out) - 1);
        return;
    }
    size_t head = bytes < stream->head ? stream->head - bytes : 0;
    size_t body = stream->head + length - bytes - head;
    assert(out->offers == 0 && head + body <= GYRE_STREAM_REST_MOST + stream->head);
    struct gyre_offer *offer = gyre_stream_offer_at(out, out->offers++);
    memcpy(out->stage, header + stream->head - head, head);
    if (body > 0)
        gyre_copy(out->stage + head, (const uint8_t *)data + (length - body), body);
    *offer = (struct gyre_offer){.head = out->stage,
                                 .head_left = (uint32_t)(head + body),
                                 .kind = GYRE_FRAME_DATA,
                                 .begun = true};
    out->staged = offer->head_left;
    out->offered = offer->head_left;
    out->begun = true;
    out->begun_match = *match;
    out->begun_rest = offer;
}

bool gyre_stream_go_on(struct gyre_stream *stream, struct gyre_send *send)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_offer *rest = out->begun_rest;
    if (!out->begun || !gyre_match_same(&out->begun_match, &send->slot.match))
        return false;
    out->begun = false;
    out->begun_rest = NULL;
    send->state = GYRE_SEND_FRAMED;
    send->framed = send->length;
    if (rest) {
        rest->send = send;
        rest->last = true;
    } else {
        gyre_stream_finish_send(stream, send, 0);
    }
    return true;
}

uint32_t gyre_stream_send_now(struct gyre_stream *stream, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token, uint8_t *to)
{
    if (stream->sends_out == stream->posts ||
        !gyre_stream_leave_now(stream, match, data, length, to, NULL))
        return 0;
    gyre_copy(to + stream->head, data, length);
    stream->sends_out++;
    gyre_stream_tell(stream, token, 0, true);
    return stream->head + (uint32_t)length;
}

bool gyre_stream_take_now(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                          uint64_t length)
{
    struct gyre_stored *stored = gyre_table_find(&stream->stored, match);
    if (!stored || !is_open_now(stream) || stored->parcel.length != length ||
        stored->slot.match.fingerprint != match->fingerprint)
        return false;
    gyre_stream_unstore(stream, stored, data);
    return true;
}

/* Whether no stored message, receive or ASK has that name, and no other fingerprint is known. */
static bool is_news(const struct gyre_stream *stream, const struct gyre_match *match)
{
    return !gyre_table_find(&stream->stored, match) && !gyre_table_find(&stream->receives, match) &&
           !gyre_table_find(&stream->asks, match) && !gyre_stream_differs(stream, match);
}

/* Whether the next frame may be that message: between two frames, with credit, and news. */
static bool is_expected(const struct gyre_stream *stream, const struct gyre_match *match,
                        uint64_t length)
{
    const struct gyre_credit *credit = &stream->credit;
    return length <= stream->eager && is_open_now(stream) && stream->in.where == GYRE_IN_HEADER &&
           credit->received + length + GYRE_UNEXPECTED_CHARGE - credit->given <=
               stream->unexpected &&
           is_news(stream, match);
}

/* Whether the head before a payload is the message's, with the payload's sum if payloads have
 * sums. */
static bool is_head_of(const struct gyre_stream *stream, const uint8_t *head,
                       const struct gyre_match *match, uint64_t length, const void *payload)
{
    struct gyre_frame frame = frame_of(stream, match, length);
    uint8_t wanted[GYRE_FRAME_HEAD_MOST];
    gyre_stream_write_head(stream, &frame, payload, wanted);
    return memcmp(head, wanted, stream->seal_in ? GYRE_FRAME_BYTES : stream->head) == 0;
}

static bool count_credit(struct gyre_stream *stream, uint64_t length)
{
    stream->credit.received += length + GYRE_UNEXPECTED_CHARGE;
    stream->credit.given += length + GYRE_UNEXPECTED_CHARGE;
    return true;
}

bool gyre_stream_come_now(struct gyre_stream *stream, const struct gyre_match *match,
                          uint64_t length, const uint8_t header[GYRE_FRAME_BYTES])
{
    return !stream->checksum && stream->in.have == 0 && is_expected(stream, match, length) &&
           is_head_of(stream, header, match, length, NULL) && count_credit(stream, length);
}

/* Takes the frame at the beginning of read-ahead to `data`. True: its tag is right; read() finds a
 * wrong one again. */
static bool take_sealed(struct gyre_stream *stream, void *data, uint64_t length)
{
    struct gyre_seal *seal = stream->seal_in;
    const uint8_t *ahead = stream->in.ahead;
    const uint64_t number = gyre_seal_number(seal);
    gyre_seal_begin(seal, ahead, GYRE_FRAME_BYTES);
    gyre_seal_take(seal, ahead + stream->head, data, length);
    bool right = gyre_seal_matches(seal, ahead + GYRE_FRAME_BYTES);
    if (!right)
        gyre_seal_return_to(seal, number);
    return right;
}

bool gyre_stream_take_next(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                           uint64_t length)
{
    const uint8_t *ahead = stream->in.ahead;
    if (stream->in.have < stream->head + length || !is_expected(stream, match, length) ||
        !is_head_of(stream, ahead, match, length, ahead + stream->head) ||
        (stream->seal_in && !take_sealed(stream, data, length)))
        return false;
    if (!stream->seal_in)
        gyre_copy(data, ahead + stream->head, length);
    return count_credit(stream, length);
}
