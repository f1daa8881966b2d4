/* Chooses the next frame: from posted sends to offers.
 *
 *   send ─▶ eager ──credit──────────────────────────────┐
 *             └─blocked─▶ ASK ─▶ (hash) ──┐             ▼
 *   send ─▶ patient (hash) ─────────────GRANT─▶ granted ─▶ offers ─▶ gather ─▶ wrote ─▶ complete
 *                                         │       ▲  └─▶ one piece, then to the back
 *                                         │       └────────┘
 *                                         └─▶ seen by both ends: POINT (point.c)
 *
 * Order of service: withdrawals, grants and credit; then eager messages while the peer's store has
 * room; then one piece of the next granted message, so that a message of a gigabyte delays a small
 * one only by the bytes that are offered at once; when nothing else is left to say, ASK for blocked
 * messages; BYE last.
 *
 * An eager message beyond the credit does not wait for credit alone: the peer's store may be full
 * of messages that the peer takes only after this one. So the message asks, and comes as a granted
 * message once its receive is posted. Hence a message whose receive is posted moves, however full
 * the store is. A long message asks too, but late, or before its rank sleeps: the grant is normally
 * on its way, and the question only serves to find a receive of another length, or one that takes
 * messages of any rank.
 *
 * Tested by tests/unit/transport/stream/stream_test.c. */
#include "transport/stream/inside.h"

#include "base/bytes.h"

#include <errno.h>

/* -- control ----------------------------------------------------------------------------------- */

static void offer_length(struct gyre_stream *stream, enum gyre_frame_kind kind,
                         const struct gyre_match *match, uint64_t length)
{
    uint8_t wire[8];
    gyre_put64(wire, length);
    gyre_stream_offer(stream, kind, match, wire, sizeof wire);
}

static void offer_place(struct gyre_stream *stream, struct gyre_send *send)
{
    uint8_t wire[2 * sizeof(uint64_t)];
    gyre_put64(wire, send->region);
    gyre_put64(wire + 8, send->offset);
    gyre_stream_offer(stream, GYRE_FRAME_POINT, &send->slot.match, wire, sizeof wire);
    send->state = GYRE_SEND_POINTED;
    gyre_table_insert(&stream->sends, send);
}

_Static_assert(GYRE_FRAME_PLACE_BYTES == 20 + 4 * GYRE_REMOTE_WRITE_KEYS, "a PLACE has all keys");

static void offer_invitation(struct gyre_stream *stream, struct gyre_receive *receive)
{
    uint8_t wire[GYRE_FRAME_PLACE_BYTES];
    if (!gyre_stream_expose(stream, receive)) {
        offer_length(stream, GYRE_FRAME_GRANT, &receive->slot.match, receive->length);
        return;
    }
    gyre_put64(wire, receive->length);
    gyre_put64(wire + 8, receive->place.address);
    gyre_put32(wire + 16, gyre_stream_number(stream, receive));
    for (int i = 0; i < GYRE_REMOTE_WRITE_KEYS; i++)
        gyre_put32(wire + 20 + 4 * i, receive->place.key[i]);
    gyre_stream_offer(stream, GYRE_FRAME_PLACE, &receive->slot.match, wire, sizeof wire);
}

static void offer_credit(struct gyre_stream *stream)
{
    struct gyre_match total = {.sequence = stream->credit.given};
    gyre_stream_offer(stream, GYRE_FRAME_CREDIT, &total, NULL, 0);
    stream->credit.reported = stream->credit.given;
}

bool gyre_stream_lacks_credit(const struct gyre_stream *stream)
{
    const struct gyre_send *eager = (const struct gyre_send *)stream->out.eager.head;
    return eager && !gyre_stream_has_credit(stream, eager->length);
}

/* Whether credit should be told now. A frame of its own costs both ends a system call; beside
 * another frame it costs nothing. So credit is told early beside other frames, and alone only when
 * half the store is owed. Less may be owed for ever: the other half has room for any eager
 * message. */
static bool owes_credit(const struct gyre_stream *stream)
{
    const struct gyre_outgoing *out = &stream->out;
    bool company = out->offers > 0 || out->granted.head ||
                   (out->eager.head && !gyre_stream_lacks_credit(stream));
    uint64_t owed = stream->credit.given - stream->credit.reported;
    return owed >=
           stream->unexpected / (company ? GYRE_STREAM_CREDIT_BESIDE : GYRE_STREAM_CREDIT_ALONE);
}

static bool offer_recalls(struct gyre_stream *stream)
{
    struct gyre_receive *receive = gyre_queue_pop(&stream->out.recalls);
    if (receive) {
        gyre_stream_offer(stream, GYRE_FRAME_RECALL, &receive->slot.match, NULL, 0);
        receive->recall_due = false;
        return true;
    }
    struct gyre_note *note = gyre_queue_pop(&stream->out.spared);
    if (note) {
        gyre_stream_offer(stream, GYRE_FRAME_SPARED, &note->slot.match, NULL, 0);
        note->spared_due = false;
    }
    return note != NULL;
}

static bool offer_control(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_send *send = gyre_queue_pop(&out->voids);
    if (send) {
        gyre_stream_offer(stream, GYRE_FRAME_VOID, &send->slot.match, NULL, 0);
        gyre_stream_release_send(stream, send);
        return true;
    }
    struct gyre_receive *receive = gyre_queue_pop(&out->grants);
    if (receive) {
        offer_invitation(stream, receive);
        receive->invited = true;
        return true;
    }
    if (offer_recalls(stream))
        return true;
    receive = gyre_queue_pop(&out->taken_notices);
    if (receive) {
        gyre_stream_offer(stream, GYRE_FRAME_TAKEN, &receive->slot.match, NULL, 0);
        gyre_stream_give_receive(stream, receive);
        return true;
    }
    send = gyre_queue_pop(&out->points);
    if (send) {
        offer_place(stream, send);
        return true;
    }
    if (owes_credit(stream)) {
        offer_credit(stream);
        return true;
    }
    return false;
}

/* -- messages ---------------------------------------------------------------------------------- */

static void frame_message(struct gyre_stream *stream, struct gyre_send *send,
                          enum gyre_frame_kind kind, uint32_t length)
{
    struct gyre_offer *piece = gyre_stream_offer(
        stream, kind, &send->slot.match, length > 0 ? send->data + send->framed : NULL, length);
    piece->send = send;
    send->framed += length;
    piece->last = send->framed == send->length;
    if (piece->last) {
        send->state = GYRE_SEND_FRAMED;
        stream->out.unframed--;
    }
}

static bool offer_eager(struct gyre_stream *stream)
{
    struct gyre_send *send = (struct gyre_send *)stream->out.eager.head;
    if (!send || !gyre_stream_has_credit(stream, send->length)) {
        return false;
    }
    gyre_queue_pop(&stream->out.eager);
    stream->credit.spent += send->length + GYRE_UNEXPECTED_CHARGE;
    stream->out.burst++;
    frame_message(stream, send, GYRE_FRAME_DATA, (uint32_t)send->length);
    return true;
}

static bool offer_piece(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_send *send = gyre_queue_pop(&out->granted);
    out->burst = 0;
    if (!send) {
        return false;
    }
    uint64_t left = send->length - send->framed;
    frame_message(stream, send, GYRE_FRAME_PIECE,
                  left < GYRE_FRAME_PAYLOAD_MAX ? (uint32_t)left : GYRE_FRAME_PAYLOAD_MAX);
    if (send->state == GYRE_SEND_GRANTED) {
        gyre_queue_push(&out->granted, send);
    }
    return true;
}

static bool offer_message(struct gyre_stream *stream)
{
    if (stream->out.burst < GYRE_STREAM_BURST && offer_eager(stream)) {
        return true;
    }
    return offer_piece(stream) || offer_eager(stream);
}

static void ask_for_grant(struct gyre_stream *stream, struct gyre_send *send)
{
    if (stream->in.bye_heard) { /* the peer will not grant it */
        gyre_stream_withdraw_send(stream, send, GYRE_PEER_LOST);
        return;
    }
    offer_length(stream, GYRE_FRAME_ASK, &send->slot.match, send->length);
    if (send->state == GYRE_SEND_QUEUED) {
        gyre_queue_pop(&stream->out.eager);
        gyre_table_insert(&stream->sends, send);
    } else {
        gyre_queue_pop(&stream->out.patient);
    }
    send->state = GYRE_SEND_ASKED;
}

/* Asks for blocked messages. Nothing else can be said: the carrier took everything, and the
 * remaining messages wait for the peer. */
static void offer_asks(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    uint32_t asks = 0;
    while (out->eager.head && asks++ < GYRE_STREAM_ASKS) {
        ask_for_grant(stream, (struct gyre_send *)out->eager.head);
    }
    if (!out->patient.head || ++out->patience < GYRE_STREAM_PATIENCE) {
        return;
    }
    while (out->patient.head && asks++ < GYRE_STREAM_ASKS) {
        ask_for_grant(stream, (struct gyre_send *)out->patient.head);
    }
}

bool gyre_stream_ask(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    if (stream->status || out->offers || !out->patient.head ||
        out->patience >= GYRE_STREAM_PATIENCE - 1)
        return false;
    out->patience = GYRE_STREAM_PATIENCE - 1;
    return true;
}

static void offer_bye(struct gyre_stream *stream)
{
    if (stream->out.bye_asked && !stream->out.bye_framed && stream->out.unframed == 0) {
        struct gyre_match nothing = {0};
        gyre_stream_offer(stream, GYRE_FRAME_BYE, &nothing, NULL, 0);
        stream->out.bye_framed = true;
    }
}

static void fill_offers(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    while (gyre_stream_offers_have_room(out) && (offer_control(stream) || offer_message(stream))) {
        out->patience = 0;
    }
    if (out->offers == 0) {
        offer_asks(stream);
    }
    if (gyre_stream_offers_have_room(out)) {
        offer_bye(stream);
    }
}

/* -- the carrier's side ------------------------------------------------------------------------ */

/* Whether there is nothing to write. Most gathers find nothing, so this look is short. */
bool gyre_stream_silent(const struct gyre_stream *stream)
{
    const struct gyre_outgoing *out = &stream->out;
    return out->offers == 0 && !out->eager.head && !out->patient.head && !out->granted.head &&
           !out->voids.head && !out->points.head && !out->grants.head && !out->taken_notices.head &&
           !out->recalls.head && !out->spared.head && !out->remote_writes.head &&
           !owes_credit(stream) && (!out->bye_asked || out->bye_framed);
}

int gyre_stream_gather(struct gyre_stream *stream, struct iovec *iov, int max)
{
    if (stream->status || gyre_stream_silent(stream)) {
        return 0;
    }
    if (stream->seal_out && gyre_seal_spent(stream->seal_out)) {
        gyre_stream_fail(stream, -EOVERFLOW);
        return 0;
    }
    fill_offers(stream);
    return gyre_stream_offered(stream, iov, max);
}
