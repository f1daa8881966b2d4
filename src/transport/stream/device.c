/* Long messages from and into memory that the CPU cannot touch; the ferry copies them.
 *
 *     the sender's lies in      the receiver's in
 *     a region that is away     a device, or the host    POINT ─▶ one copy from there ─▶ TAKEN
 *     a region of the host's    a device                 likewise
 *     the host                  a device                 pieces ─▶ ashore ─▶ a copy from there
 *
 *     what the carrier reaches  what it reaches          PLACE (remote_write.c)
 *     what the carrier reaches  anything else            GRANT ─▶ a copy aboard ─▶ pieces
 *
 * Copies are posted by fetch() and looked at by the next ones: nobody waits for a device, and
 * nothing is said to have been read before it has. A copy between two devices' memories is one
 * post. One that the host's memory takes part in is cut up, since a driver may make it while it is
 * posted.
 *
 * A post whose buffer a copy may use is past recall, and ends when that is over; a stream that
 * fails waits for it. Where the sender has freed the region meanwhile, the stream fails. */
#include "transport/stream/inside.h"

#include "transport/memory/copy_queue.h"

#include <errno.h>
#include <stdlib.h>

#define TRIP_BYTES (1u << 20) /* posted at a time, of copies that use the host's memory */

bool gyre_stream_is_away(const struct gyre_stream *stream, const void *memory, uint64_t length)
{
    return length > stream->eager && gyre_ferry_owns(stream->ferry, memory);
}

uint32_t gyre_stream_locate_away(const struct gyre_stream *stream, const void *memory,
                                 uint64_t length, uint64_t *offset)
{
    const struct gyre_sight *sight = stream->sight;
    return sight ? sight->locate_away(sight->context, memory, length, offset) : 0;
}

bool gyre_stream_carries(const struct gyre_stream *stream, const void *memory, uint64_t length,
                         bool send)
{
    const struct gyre_reach *reach = stream->reach;
    uint64_t offset;
    if (!gyre_stream_is_away(stream, memory, length))
        return false;
    return reach ? reach->covers(reach->context, memory, length)
                 : !send || gyre_stream_locate_away(stream, memory, length, &offset);
}

/* -- pieces ------------------------------------------------------------------------------------ */

uint8_t *gyre_stream_ashore(struct gyre_receive *receive)
{
    if (!receive->ashore)
        receive->ashore = malloc(receive->length);
    return receive->ashore;
}

void gyre_stream_land(struct gyre_stream *stream, struct gyre_receive *receive)
{
    gyre_table_remove(&stream->receives, receive);
    receive->landing = true;
    receive->got = 0;
    gyre_queue_push(&stream->in.points, receive);
}

/* -- trips ------------------------------------------------------------------------------------- */

static int post(struct gyre_stream *stream, struct gyre_receive *receive, uint64_t bytes)
{
    struct gyre_ferry *ferry = stream->ferry;
    uint8_t *to = receive->data + receive->got;
    struct gyre_spot spot = {stream->peer, receive->region, receive->offset + receive->got, bytes};
    return receive->landing
               ? gyre_ferry_copy(ferry, to, receive->ashore + receive->got, bytes, &receive->ticket)
               : gyre_ferry_fetch(ferry, stream->sight, &spot, to, &receive->ticket);
}

int gyre_stream_send_off(struct gyre_stream *stream, struct gyre_receive *receive, bool by_host)
{
    uint64_t bytes = receive->length - receive->got;
    if ((by_host || !receive->away) && bytes > TRIP_BYTES)
        bytes = TRIP_BYTES;
    int status = post(stream, receive, bytes);
    if (status == GYRE_AGAIN)
        return 0;
    if (status) {
        gyre_stream_fail(stream, status);
        return status;
    }
    receive->trip = bytes;
    gyre_queue_pop(&stream->in.points);
    gyre_queue_push(&stream->in.trips, receive);
    return 1;
}

static void end_trip(struct gyre_stream *stream, struct gyre_receive *receive)
{
    gyre_queue_pop(&stream->in.trips);
    receive->got += receive->trip;
    receive->trip = 0;
    if (receive->got < receive->length)
        gyre_queue_push(&stream->in.points, receive);
    else
        gyre_stream_take(stream, receive);
}

int gyre_stream_end_trips(struct gyre_stream *stream)
{
    struct gyre_receive *receive;
    int moved = 0;
    while (!stream->status && (receive = (struct gyre_receive *)stream->in.trips.head)) {
        int done = gyre_ferry_done(stream->ferry, receive->ticket);
        if (done < 0)
            gyre_stream_fail(stream, done);
        if (done <= 0)
            return done ? done : moved;
        end_trip(stream, receive);
        moved = 1;
    }
    return moved;
}

/* -- lading ------------------------------------------------------------------------------------ */

void gyre_stream_lade(struct gyre_stream *stream, struct gyre_send *send)
{
    send->state = GYRE_SEND_LADING;
    gyre_queue_push(&stream->out.lading, send);
}

/* 1 or 0: whether it was; negative: it cannot be. */
static int lade_some(struct gyre_stream *stream, struct gyre_send *send)
{
    uint64_t left = send->length - send->laden;
    uint64_t bytes = left < TRIP_BYTES ? left : TRIP_BYTES;
    if (!send->aboard && !(send->aboard = malloc(send->length)))
        return -ENOMEM;
    int status = gyre_ferry_copy(stream->ferry, send->aboard + send->laden,
                                 send->data + send->laden, bytes, &send->ticket);
    if (status)
        return status == GYRE_AGAIN ? 0 : status;
    send->trip = bytes;
    return 1;
}

static int end_lading(struct gyre_stream *stream, struct gyre_send *send)
{
    int done = gyre_ferry_done(stream->ferry, send->ticket);
    if (done <= 0)
        return done;
    send->laden += send->trip;
    send->trip = 0;
    if (send->laden < send->length)
        return 1;
    gyre_queue_pop(&stream->out.lading);
    send->data = send->aboard;
    send->state = GYRE_SEND_GRANTED;
    gyre_queue_push(&stream->out.granted, send);
    return 1;
}

/* One at a time. */
int gyre_stream_run_lading(struct gyre_stream *stream)
{
    struct gyre_send *send;
    int moved = 0;
    while (!stream->status && (send = (struct gyre_send *)stream->out.lading.head)) {
        int status = send->trip ? end_lading(stream, send) : lade_some(stream, send);
        if (status < 0)
            gyre_stream_fail(stream, status);
        if (status <= 0)
            return status ? status : moved;
        moved = 1;
    }
    return moved;
}

void gyre_stream_settle(struct gyre_stream *stream)
{
    if (stream->in.trips.head || stream->out.lading.head)
        gyre_ferry_settle(stream->ferry);
}
