/* From posted sends to bytes: which frame goes next, and what is left of those offered.
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
 * one by what is offered at once; when nothing else is left to say, ASK for what is blocked; BYE
 * last.
 *
 * An eager message beyond the credit does not wait for credit alone: what fills the peer's store
 * may be messages that the peer takes only after this one. It asks, and comes as a granted message
 * once its receive is posted; so whatever has its receive posted moves, however full the store is.
 * A long message asks too, but late: the grant is normally on its way, and the question only serves
 * to find a receive of another length.
 *
 * Headers and payloads up to 256 bytes are staged side by side, so a burst of small messages is one
 * vector. An offer is never changed once a byte of it was written; the stage is used again from its
 * start when all offers have gone. */
#include "transport/stream/inside.h"

#include "base/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGED_MAX (GYRE_FRAME_BYTES + GYRE_STREAM_INLINE_MAX)

static bool offers_have_room(const struct gyre_outgoing *out)
{
    return out->offers < GYRE_STREAM_OFFERS &&
           out->staged + STAGED_MAX <= GYRE_STREAM_STAGE_BYTES &&
           out->offered < GYRE_STREAM_OFFER_BYTES;
}

static struct gyre_offer *next_offer(struct gyre_stream *stream, enum gyre_frame_kind kind,
                                     const struct gyre_match *match, const void *payload,
                                     uint32_t length)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_offer *offer = gyre_stream_offer_at(out, out->offers++);
    struct gyre_frame frame = {
        .kind = kind, .length = length, .epoch = stream->epoch, .match = *match};
    uint8_t *head = out->stage + out->staged;
    gyre_frame_encode(&frame, stream->checksum ? payload : NULL, head);
    *offer = (struct gyre_offer){.head = head, .head_left = GYRE_FRAME_BYTES, .kind = kind};
    if (length > GYRE_STREAM_INLINE_MAX) {
        offer->body = payload;
        offer->body_left = length;
    } else if (length > 0) {
        memcpy(head + GYRE_FRAME_BYTES, payload, length);
        offer->head_left += length;
    }
    out->staged += offer->head_left;
    out->offered += offer->head_left + offer->body_left;
    return offer;
}

/* -- control ----------------------------------------------------------------------------------- */

static void offer_length(struct gyre_stream *stream, enum gyre_frame_kind kind,
                         const struct gyre_match *match, uint64_t length)
{
    uint8_t wire[8];
    gyre_put64(wire, length);
    next_offer(stream, kind, match, wire, sizeof wire);
}

static void offer_place(struct gyre_stream *stream, struct gyre_send *send)
{
    uint8_t wire[2 * sizeof(uint64_t)];
    gyre_put64(wire, send->region);
    gyre_put64(wire + 8, send->offset);
    next_offer(stream, GYRE_FRAME_POINT, &send->slot.match, wire, sizeof wire);
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
    next_offer(stream, GYRE_FRAME_PLACE, &receive->slot.match, wire, sizeof wire);
}

static void offer_credit(struct gyre_stream *stream)
{
    struct gyre_match total = {.sequence = stream->credit.given};
    next_offer(stream, GYRE_FRAME_CREDIT, &total, NULL, 0);
    stream->credit.reported = stream->credit.given;
}

bool gyre_stream_has_credit(const struct gyre_stream *stream, uint64_t length)
{
    const struct gyre_credit *credit = &stream->credit;
    return credit->spent - credit->returned + length + GYRE_UNEXPECTED_CHARGE <= stream->unexpected;
}

bool gyre_stream_lacks_credit(const struct gyre_stream *stream)
{
    const struct gyre_send *eager = (const struct gyre_send *)stream->out.eager.head;
    return eager && !gyre_stream_has_credit(stream, eager->length);
}

/* A frame of its own costs both ends a system call, beside another one nothing: credit goes early
 * with what goes anyway, and alone only when half the store is owed. So much may be owed for ever:
 * the other half has room for any eager message. */
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
        next_offer(stream, GYRE_FRAME_RECALL, &receive->slot.match, NULL, 0);
        receive->recall_due = false;
        return true;
    }
    struct gyre_note *note = gyre_queue_pop(&stream->out.spared);
    if (note) {
        next_offer(stream, GYRE_FRAME_SPARED, &note->slot.match, NULL, 0);
        note->spared_due = false;
    }
    return note != NULL;
}

static bool offer_control(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_send *send = gyre_queue_pop(&out->voids);
    if (send) {
        next_offer(stream, GYRE_FRAME_VOID, &send->slot.match, NULL, 0);
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
        next_offer(stream, GYRE_FRAME_TAKEN, &receive->slot.match, NULL, 0);
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
    struct gyre_offer *piece = next_offer(stream, kind, &send->slot.match,
                                          length > 0 ? send->data + send->framed : NULL, length);
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
    if (stream->in.bye_heard) { /* nobody will grant it */
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

/* Nothing else can be said: the carrier took all, and what is left here waits for the peer. */
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

static void offer_bye(struct gyre_stream *stream)
{
    if (stream->out.bye_asked && !stream->out.bye_framed && stream->out.unframed == 0) {
        struct gyre_match nothing = {0};
        next_offer(stream, GYRE_FRAME_BYE, &nothing, NULL, 0);
        stream->out.bye_framed = true;
    }
}

static void fill_offers(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    while (offers_have_room(out) && (offer_control(stream) || offer_message(stream))) {
        out->patience = 0;
    }
    if (out->offers == 0) {
        offer_asks(stream);
    }
    if (offers_have_room(out)) {
        offer_bye(stream);
    }
}

/* -- the carrier's side ------------------------------------------------------------------------ */

static bool add_vector(struct iovec *iov, int *used, int max, const uint8_t *bytes, size_t length)
{
    if (length == 0) {
        return true;
    }
    if (*used > 0 && (uint8_t *)iov[*used - 1].iov_base + iov[*used - 1].iov_len == bytes) {
        iov[*used - 1].iov_len += length;
        return true;
    }
    if (*used == max) {
        return false;
    }
    iov[(*used)++] = (struct iovec){.iov_base = (void *)bytes, .iov_len = length};
    return true;
}

/* Most gathers find that, so it is found out quickly. */
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
    fill_offers(stream);
    int used = 0;
    for (uint32_t i = 0; i < stream->out.offers; i++) {
        const struct gyre_offer *offer = gyre_stream_offer_at(&stream->out, i);
        if (!add_vector(iov, &used, max, offer->head, offer->head_left) ||
            !add_vector(iov, &used, max, offer->body, offer->body_left)) {
            break;
        }
    }
    return used;
}

static void offer_written(struct gyre_stream *stream, const struct gyre_offer *offer)
{
    struct gyre_send *send = offer->send;
    stream->out.bye_said |= offer->kind == GYRE_FRAME_BYE;
    if (send && send->state == GYRE_SEND_TEARING) {
        free(stream->out.torn);
        stream->out.torn = NULL;
        send->state = GYRE_SEND_VOID;
        if (offer->last) {
            gyre_stream_release_send(stream, send);
        } else {
            gyre_queue_push(&stream->out.voids, send);
        }
    } else if (send && offer->last) {
        gyre_stream_finish_send(stream, send, 0);
    }
}

/* Offers of which nothing is left. */
void gyre_stream_retire(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    while (out->offers > 0) {
        const struct gyre_offer *offer = gyre_stream_offer_at(out, 0);
        if (offer->head_left + offer->body_left > 0) {
            return;
        }
        offer_written(stream, offer);
        if (offer == out->begun_rest) {
            out->begun_rest = NULL;
        }
        out->first = (out->first + 1) % GYRE_STREAM_OFFERS;
        out->offers--;
    }
    out->staged = 0;
}

static size_t skip_written(const uint8_t **bytes, uint32_t *left, size_t written)
{
    uint32_t part = written < *left ? (uint32_t)written : *left;
    *bytes += part;
    *left -= part;
    return written - part;
}

void gyre_stream_wrote(struct gyre_stream *stream, size_t bytes)
{
    struct gyre_outgoing *out = &stream->out;
    if (stream->status || bytes == 0) {
        return;
    }
    assert(bytes <= out->offered && "a carrier writes what it was offered");
    out->offered -= bytes;
    for (uint32_t i = 0; bytes > 0; i++) {
        struct gyre_offer *offer = gyre_stream_offer_at(out, i);
        offer->begun = true;
        bytes = skip_written(&offer->head, &offer->head_left, bytes);
        bytes = offer->body_left > 0 ? skip_written(&offer->body, &offer->body_left, bytes) : bytes;
    }
    gyre_stream_retire(stream);
}

/* -- grants ------------------------------------------------------------------------------------ */

void gyre_stream_grant(struct gyre_stream *stream, struct gyre_receive *receive)
{
    receive->granted = true;
    gyre_queue_push(&stream->out.grants, receive);
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
