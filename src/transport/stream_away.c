/* Long messages from and into memory that the CPU cannot touch; the ferry copies them.
 *
 *     the sender's lies in      the receiver's in
 *     a region that is away     a device, or the host    POINT ─▶ one copy from there ─▶ TAKEN
 *     a region of the host's    a device                 likewise
 *     the host                  a device                 pieces ─▶ ashore ─▶ a copy from there
 *
 * Copies are posted by fetch() and looked at by the next ones: nobody waits for a device, and
 * nothing is said to have been read before it has. A copy between two devices' memories is one
 * post. One that the host's memory takes part in is cut up, since a driver may make it while it is
 * posted.
 *
 * A receive whose buffer a copy may write is past recall, and ends when that is over; a stream that
 * fails waits for it. Where the sender has freed the region meanwhile, the stream fails. */
#include "transport/stream_state.h"

#include "transport/ferry.h"

#include <stdlib.h>

#define TRIP_BYTES (1u << 20) /* posted at a time, of copies that use the host's memory */

static struct gyre_ferry *ferry_of(const struct gyre_stream *stream)
{
    return stream->sight ? stream->sight->ferry : NULL;
}

bool gyre_stream_is_away(const struct gyre_stream *stream, const void *memory, uint64_t length)
{
    return length > stream->eager && gyre_ferry_owns(ferry_of(stream), memory);
}

uint32_t gyre_stream_locate_away(const struct gyre_stream *stream, const void *memory,
                                 uint64_t length, uint64_t *offset)
{
    const struct gyre_sight *sight = stream->sight;
    return sight->locate_away(sight->context, memory, length, offset);
}

bool gyre_stream_carries(const struct gyre_stream *stream, const void *memory, uint64_t length,
                         bool send)
{
    uint64_t offset;
    return gyre_stream_is_away(stream, memory, length) &&
           (!send || gyre_stream_locate_away(stream, memory, length, &offset));
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
    struct gyre_ferry *ferry = ferry_of(stream);
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
        int done = gyre_ferry_done(ferry_of(stream), receive->ticket);
        if (done < 0)
            gyre_stream_fail(stream, done);
        if (done <= 0)
            return done ? done : moved;
        end_trip(stream, receive);
        moved = 1;
    }
    return moved;
}

void gyre_stream_settle(struct gyre_stream *stream)
{
    if (stream->in.trips.head)
        gyre_ferry_settle(ferry_of(stream));
}
