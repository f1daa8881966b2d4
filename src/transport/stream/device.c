/* Long messages from and into memory that the CPU cannot touch; the copy queue copies them.
 *
 *     the sender's lies in      the receiver's in
 *     a region on a device      a device, or the host    POINT ─▶ one copy from there ─▶ TAKEN
 *     a region of the host's    a device                 POINT ─▶ one copy from there ─▶ TAKEN
 *     the host                  a device                 pieces ─▶ staged in ─▶ a copy from there
 *
 *     registered memory         registered memory        PLACE (remote_write.c)
 *     registered memory         anything else            GRANT ─▶ staged out ─▶ pieces
 *
 * fetch() posts copies, and later calls look at them: no thread waits for a device, and no message
 * counts as read before the device has read it. A copy between two devices' memories is one post. A
 * copy from or to host memory is cut up, because a driver may make the copy inside the post.
 *
 * A post whose buffer a copy may use cannot be withdrawn: it ends when the copy is over, and a
 * stream that fails waits for the copy. Where the sender has freed the region meanwhile, the stream
 * fails. */
#include "transport/stream/inside.h"

#include "transport/memory/copy_queue.h"

#include <errno.h>
#include <stdlib.h>

#define COPY_BYTES (1u << 20) /* posted at a time, of a copy from or to host memory */

/* Whether the copy queue takes messages of that length. */
static bool suits_device(const struct gyre_stream *stream, uint64_t length)
{
    return length > stream->eager && stream->copy_queue;
}

bool gyre_stream_is_on_device(const struct gyre_stream *stream, const struct gyre_match *match,
                              uint64_t length)
{
    return match->on_device && suits_device(stream, length);
}

uint32_t gyre_stream_locate_on_device(const struct gyre_stream *stream, const void *memory,
                                      uint64_t length, uint64_t *offset)
{
    return stream->lookup
               ? gyre_lookup_locate(stream->lookup, GYRE_MEMORY_CUDA, memory, length, true, offset)
               : 0;
}

bool gyre_stream_carries(const struct gyre_stream *stream, const void *memory, uint64_t length,
                         bool send)
{
    uint64_t offset;
    return suits_device(stream, length) &&
           (!send || gyre_stream_locate_on_device(stream, memory, length, &offset));
}

/* -- pieces ------------------------------------------------------------------------------------ */

uint8_t *gyre_stream_stage_in(struct gyre_receive *receive)
{
    if (!receive->staged_in)
        receive->staged_in = malloc(receive->length);
    return receive->staged_in;
}

void gyre_stream_land(struct gyre_stream *stream, struct gyre_receive *receive)
{
    gyre_table_remove(&stream->receives, receive);
    receive->landing = true;
    receive->got = 0;
    gyre_queue_push(&stream->in.points, receive);
}

/* -- copies ------------------------------------------------------------------------------------ */

static int post_copying(struct gyre_stream *stream, struct gyre_receive *receive, uint64_t bytes)
{
    struct gyre_copy_queue *copy_queue = stream->copy_queue;
    uint8_t *to = receive->data + receive->got;
    struct gyre_spot spot = {stream->peer, receive->region, receive->offset + receive->got, bytes};
    return receive->landing
               ? gyre_copy_queue_copy(copy_queue, to, receive->staged_in + receive->got, bytes,
                                      &receive->ticket)
               : gyre_copy_queue_fetch(copy_queue, stream->lookup, &spot, to, &receive->ticket);
}

int gyre_stream_post_copy(struct gyre_stream *stream, struct gyre_receive *receive, bool by_host)
{
    uint64_t bytes = receive->length - receive->got;
    if ((by_host || !receive->on_device) && bytes > COPY_BYTES)
        bytes = COPY_BYTES;
    int status = post_copying(stream, receive, bytes);
    if (status == GYRE_AGAIN)
        return 0;
    if (status)
        return status;
    receive->copying = bytes;
    gyre_queue_pop(&stream->in.points);
    gyre_queue_push(&stream->in.copying_receives, receive);
    return 1;
}

static void end_copying(struct gyre_stream *stream, struct gyre_receive *receive)
{
    gyre_queue_pop(&stream->in.copying_receives);
    receive->got += receive->copying;
    receive->copying = 0;
    if (receive->got < receive->length)
        gyre_queue_push(&stream->in.points, receive);
    else
        gyre_stream_end_copied(stream, receive);
}

int gyre_stream_end_copies(struct gyre_stream *stream)
{
    struct gyre_receive *receive;
    int moved = 0;
    while ((receive = (struct gyre_receive *)stream->in.copying_receives.head)) {
        int done = gyre_copy_queue_done(stream->copy_queue, receive->ticket);
        if (done <= 0)
            return done ? done : moved;
        end_copying(stream, receive);
        moved = 1;
    }
    return moved;
}

/* -- staging ----------------------------------------------------------------------------------- */

void gyre_stream_stage(struct gyre_stream *stream, struct gyre_send *send)
{
    send->state = GYRE_SEND_STAGING;
    gyre_queue_push(&stream->out.staging, send);
}

/* Posts the next copy of a send to host memory. 1: posted; 0: no room now; negative: failed. */
static int stage_next(struct gyre_stream *stream, struct gyre_send *send)
{
    uint64_t left = send->length - send->bytes_staged;
    uint64_t bytes = left < COPY_BYTES ? left : COPY_BYTES;
    if (!send->staged_out && !(send->staged_out = malloc(send->length)))
        return -ENOMEM;
    int status = gyre_copy_queue_copy(stream->copy_queue, send->staged_out + send->bytes_staged,
                                      send->data + send->bytes_staged, bytes, &send->ticket);
    if (status)
        return status == GYRE_AGAIN ? 0 : status;
    send->copying = bytes;
    return 1;
}

static int end_staging(struct gyre_stream *stream, struct gyre_send *send)
{
    int done = gyre_copy_queue_done(stream->copy_queue, send->ticket);
    if (done <= 0)
        return done;
    send->bytes_staged += send->copying;
    send->copying = 0;
    if (send->bytes_staged < send->length)
        return 1;
    gyre_queue_pop(&stream->out.staging);
    send->data = send->staged_out;
    send->state = GYRE_SEND_GRANTED;
    gyre_queue_push(&stream->out.granted, send);
    return 1;
}

/* Moves the first of the sends that are staged. One is staged at a time. */
int gyre_stream_run_staging(struct gyre_stream *stream)
{
    struct gyre_send *send;
    int moved = 0;
    while ((send = (struct gyre_send *)stream->out.staging.head)) {
        int status = send->copying ? end_staging(stream, send) : stage_next(stream, send);
        if (status <= 0)
            return status ? status : moved;
        moved = 1;
    }
    return moved;
}
