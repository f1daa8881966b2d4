/* Withdraws a post without harm to the stream.
 *
 * A frame that no carrier has begun to write is taken back. A half-written frame must be finished
 * with the bytes of its sum, though the buffer is the caller's again: its rest goes on from a copy.
 * A peer that has granted a message waits for it, so the peer gets a VOID. No other bytes ever
 * travel in a message's name.
 *
 *      offers    [ written ▓▓▓░░░ ] [ not begun ] [ not begun ]
 *                            └copy     └── emptied ──┘        then VOID, unless it was the last
 *
 * A message that the peer reads in place, or that the carrier writes or the copy queue copies,
 * cannot be withdrawn: it ends when that work is done.
 *
 * A receive that was granted stays as a record without a buffer and swallows its message.
 *
 * Tested by tests/unit/transport/stream/ends_test.c. */
#include "transport/stream/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int copy_rest(struct gyre_stream *stream, struct gyre_offer *offer)
{
    uint8_t *copy = malloc(offer->body_left);
    if (!copy) {
        return -ENOMEM;
    }
    memcpy(copy, offer->body, offer->body_left);
    offer->body = stream->out.torn = copy;
    return 0;
}

/* Takes back the frames that no carrier has begun to write. A half-written frame goes on from a
 * copy. True: there is one. */
static bool tear(struct gyre_stream *stream, struct gyre_send *send, int *status)
{
    bool torn = false;
    for (uint32_t i = 0; i < stream->out.offers; i++) {
        struct gyre_offer *offer = gyre_stream_offer_at(&stream->out, i);
        if (offer->send != send || offer->head_left + offer->body_left == 0) {
            continue;
        }
        if (!offer->begun) {
            gyre_stream_take_back(stream, offer);
            continue;
        }
        torn = true;
        if (offer->body_left > 0 && !offer->cipher_end) {
            *status = copy_rest(stream, offer);
        }
    }
    return torn;
}

/* The queue in which a granted send waits its turn; NULL: none. */
static struct gyre_queue *send_queue_of(struct gyre_stream *stream, const struct gyre_send *send)
{
    switch (send->state) {
    case GYRE_SEND_GRANTED:
        return &stream->out.granted;
    case GYRE_SEND_LOCATED:
        return &stream->out.points;
    case GYRE_SEND_REMOTE:
        return &stream->out.remote_writes;
    default:
        return NULL;
    }
}

/* Takes back what a message was charged. Credit returned for it before it left is a lie. */
static int uncharge(struct gyre_credit *credit, uint64_t length)
{
    credit->spent -= length + GYRE_UNEXPECTED_CHARGE;
    return credit->returned > credit->spent ? GYRE_CORRUPT : 0;
}

static void withdraw_moving(struct gyre_stream *stream, struct gyre_send *send)
{
    int status = 0;
    bool eager = send->state == GYRE_SEND_FRAMED && !send->granted;
    struct gyre_queue *queue = send_queue_of(stream, send);
    if (queue) {
        gyre_queue_unlink(queue, send);
        stream->out.unframed--;
    }
    if (tear(stream, send, &status)) {
        send->state = GYRE_SEND_TEARING;
    } else if (eager) {
        status = uncharge(&stream->credit, send->length);
        gyre_stream_release_send(stream, send);
    } else {
        send->state = GYRE_SEND_VOID;
        gyre_queue_push(&stream->out.voids, send);
    }
    gyre_stream_retire(stream);
    if (status) {
        gyre_stream_fail(stream, status);
    }
}

void gyre_stream_withdraw_send(struct gyre_stream *stream, struct gyre_send *send, int status)
{
    gyre_stream_end_send(stream, send, status);
    switch (send->state) {
    case GYRE_SEND_QUEUED:
        gyre_queue_unlink(&stream->out.eager, send);
        break;
    case GYRE_SEND_WAITING:
        gyre_queue_unlink(&stream->out.patient, send);
        gyre_table_remove(&stream->sends, send);
        break;
    case GYRE_SEND_ASKED: /* the answer will be VOID */
        stream->out.unframed--;
        return;
    default:
        withdraw_moving(stream, send);
        return;
    }
    stream->out.unframed--;
    gyre_stream_release_send(stream, send);
}

void gyre_stream_withdraw_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                  int status)
{
    struct gyre_incoming *in = &stream->in;
    if (gyre_stream_recall(stream, receive)) {
        return;
    }
    gyre_stream_end_receive(stream, receive, status);
    receive->data = NULL;
    if (in->receive == receive) {
        in->where = GYRE_IN_VOID;
        in->receive = receive->granted ? receive : NULL;
    }
    if (!receive->granted) {
        gyre_stream_release_receive(stream, receive);
    }
}

int gyre_stream_cancel(struct gyre_stream *stream, uint64_t token)
{
    struct gyre_receive *receive;
    for (uint32_t i = 0; (receive = gyre_table_record(&stream->receives, i)); i++) {
        if (receive->live && receive->token == token && !gyre_stream_past_recall(receive)) {
            gyre_stream_withdraw_receive(stream, receive, -ECANCELED);
            return 0;
        }
    }
    struct gyre_send *send;
    for (uint32_t i = 0; (send = gyre_table_record(&stream->sends, i)); i++) {
        if (send->live && send->token == token && send->state != GYRE_SEND_POINTED &&
            send->state != GYRE_SEND_WRITING && send->state != GYRE_SEND_STAGING) {
            gyre_stream_withdraw_send(stream, send, -ECANCELED);
            return 0;
        }
    }
    return -ENOENT;
}
