/* Acts on the peer's control frames. Each frame here is whole and its sum is proved, so it is
 * believed, but only as far as the protocol allows. An honest peer has a bounded number of
 * questions and grants open, gives back no more credit than it was charged, and speaks only of
 * messages that exist.
 *
 *     GRANT   a send waits for it ─▶ out.granted          else noted until the send is posted
 *     ASK     a receive is posted ─▶ GRANT, unless given  else noted until the receive is posted
 *     PLACE   a GRANT that says where the message may be written
 *     RECALL  the message shall not be written there any more; SPARED agrees
 *     CREDIT  more eager messages may go
 *     VOID    the receive ends, its message will not come
 *     POINT   the message lies in the peer's memory: fetch() copies it
 *     TAKEN   the peer has copied the message; the send ends
 *     BYE     everything that waits for the peer ends
 *     BLANK   nothing
 *
 * Tested by tests/unit/transport/stream/ends_test.c. */
#include "transport/stream/inside.h"

#include "base/bytes.h"

#include <errno.h>

static uint64_t control_length(const struct gyre_incoming *in)
{
    return gyre_get64(in->control);
}

/* Reads the fields that a PLACE has behind its length; *placed is false for other frames. */
static void read_remote_place(const struct gyre_stream *stream, bool *placed, uint32_t *number,
                              struct gyre_remote_place *place)
{
    const uint8_t *at = stream->in.control;
    *placed = stream->in.frame.kind == GYRE_FRAME_PLACE;
    if (!*placed)
        return;
    *number = gyre_get32(at + 16);
    *place = (struct gyre_remote_place){.address = gyre_get64(at + 8)};
    for (int i = 0; i < GYRE_REMOTE_WRITE_KEYS; i++)
        place->key[i] = gyre_get32(at + 20 + 4 * i);
}

/* Keeps a GRANT or an ASK until the post of that name comes. An honest peer has at most as many
 * notes open as there are records. */
static int keep_note(struct gyre_stream *stream, struct gyre_table *notes, uint64_t length)
{
    int status = GYRE_CORRUPT;
    struct gyre_note *note = gyre_table_take(notes, &stream->in.frame.match);
    if (!note) {
        return status;
    }
    note->agreement = gyre_stream_agree_join(stream, &note->slot.match, true, &status);
    if (!note->agreement) {
        return status;
    }
    note->length = length;
    read_remote_place(stream, &note->placed, &note->number, &note->place);
    gyre_table_insert(notes, note);
    return 0;
}

void gyre_stream_granted(struct gyre_stream *stream, struct gyre_send *send)
{
    struct gyre_outgoing *out = &stream->out;
    if (send->state == GYRE_SEND_WAITING) {
        gyre_queue_unlink(&out->patient, send);
    }
    send->granted = true;
    if (send->live && (gyre_stream_point(stream, send) || gyre_stream_write_remote(stream, send))) {
        return;
    }
    if (send->live && send->on_device) {
        gyre_stream_stage(stream, send);
        return;
    }
    send->state = send->live ? GYRE_SEND_GRANTED : GYRE_SEND_VOID;
    gyre_queue_push(send->live ? &out->granted : &out->voids, send);
}

static int heard_grant(struct gyre_stream *stream, const struct gyre_match *match)
{
    uint64_t length = control_length(&stream->in);
    int status = gyre_stream_agree_check(stream, match);
    if (status) {
        return status;
    }
    struct gyre_send *send = gyre_table_find(&stream->sends, match);
    while (send && send->state == GYRE_SEND_POINTED) { /* a pointed send has its grant */
        send = gyre_table_next(send, match);
    }
    if (!send) {
        return length > stream->eager ? keep_note(stream, &stream->grants, length) : GYRE_CORRUPT;
    }
    if (send->length != length) {
        return gyre_stream_disagree(stream, &send->slot.match, match->fingerprint);
    }
    gyre_table_remove(&stream->sends, send);
    read_remote_place(stream, &send->placed, &send->number, &send->place);
    gyre_stream_granted(stream, send);
    return 0;
}

static int heard_ask(struct gyre_stream *stream, const struct gyre_match *match)
{
    uint64_t length = control_length(&stream->in);
    int status = stream->in.bye_heard ? GYRE_CORRUPT : gyre_stream_agree_check(stream, match);
    if (status) {
        return status;
    }
    struct gyre_receive *receive = gyre_stream_expecting(stream, match);
    if (!receive) {
        return keep_note(stream, &stream->asks, length);
    }
    if (receive->length != length) {
        return gyre_stream_disagree(stream, &receive->slot.match, match->fingerprint);
    }
    if (!receive->granted) {
        gyre_stream_grant(stream, receive);
    }
    return 0;
}

static int heard_recall(struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_send *send = NULL;
    int status = gyre_stream_heard_recall(stream, match, &send);
    if (send)
        gyre_stream_granted(stream, send);
    return status;
}

static int heard_credit(struct gyre_stream *stream, uint64_t total)
{
    struct gyre_credit *credit = &stream->credit;
    if (total < credit->returned || total > credit->spent) {
        return GYRE_CORRUPT;
    }
    credit->returned = total;
    return 0;
}

static int heard_void(struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_receive *receive = gyre_stream_granted_receive(stream, match);
    if (!receive || receive->region) {
        return GYRE_CORRUPT;
    }
    gyre_stream_unplace(stream, receive);
    gyre_stream_end_granted(stream, receive, -ECANCELED);
    return 0;
}

/* Ends receives that are still open and long messages without a grant: nothing can serve them. */
void gyre_stream_hear_nothing_more(struct gyre_stream *stream)
{
    struct gyre_receive *receive;
    stream->in.bye_heard = true;
    for (uint32_t i = 0; (receive = gyre_table_record(&stream->receives, i)); i++) {
        if (receive->live && !gyre_stream_past_recall(receive)) {
            gyre_stream_withdraw_receive(stream, receive, GYRE_PEER_LOST);
        }
    }
    struct gyre_send *send;
    for (uint32_t i = 0; (send = gyre_table_record(&stream->sends, i)); i++) {
        if (send->live && (send->state == GYRE_SEND_WAITING || send->state == GYRE_SEND_ASKED)) {
            gyre_stream_withdraw_send(stream, send, GYRE_PEER_LOST);
        }
    }
}

static int heard_bye(struct gyre_stream *stream)
{
    if (stream->in.bye_heard) {
        return GYRE_CORRUPT;
    }
    gyre_stream_hear_nothing_more(stream);
    return 0;
}

int gyre_stream_announced(const struct gyre_stream *stream, struct gyre_match *match)
{
    if (stream->status)
        return stream->status;
    const struct gyre_slot *slot = gyre_table_find(&stream->stored, match);
    if (!slot)
        slot = gyre_table_find(&stream->asks, match);
    if (!slot)
        return stream->in.bye_heard ? GYRE_PEER_LOST : 0;
    match->fingerprint = slot->match.fingerprint;
    return 1;
}

int gyre_stream_hear(struct gyre_stream *stream)
{
    const struct gyre_match *match = &stream->in.frame.match;
    switch (stream->in.frame.kind) {
    case GYRE_FRAME_GRANT:
        return heard_grant(stream, match);
    case GYRE_FRAME_PLACE:
        return stream->places_most ? heard_grant(stream, match) : GYRE_CORRUPT;
    case GYRE_FRAME_RECALL:
        return heard_recall(stream, match);
    case GYRE_FRAME_SPARED:
        return gyre_stream_heard_spared(stream, match);
    case GYRE_FRAME_ASK:
        return heard_ask(stream, match);
    case GYRE_FRAME_CREDIT:
        return heard_credit(stream, match->sequence);
    case GYRE_FRAME_VOID:
        return heard_void(stream, match);
    case GYRE_FRAME_BYE:
        return heard_bye(stream);
    case GYRE_FRAME_POINT:
        return gyre_stream_heard_point(stream, match);
    case GYRE_FRAME_TAKEN:
        return gyre_stream_heard_taken(stream, match);
    case GYRE_FRAME_BLANK:
        return stream->seal_in ? 0 : GYRE_CORRUPT;
    default:
        return GYRE_CORRUPT;
    }
}
