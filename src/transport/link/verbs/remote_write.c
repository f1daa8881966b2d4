/* Long messages, written by the device from where they lie to where they belong.
 *
 *     recv  in memory that can be registered ─▶ PLACE: address and key
 *     send  in memory that can be registered ─▶ WRITE, … WRITE with immediate: "number n has come"
 *
 * memory.c decides what can be registered. Messages in other memory take the rings.
 *
 * The device may choose the order in which the parts of a message become visible: the immediate's
 * completion comes when all of them have arrived. Half of the send queue is left to records, so
 * that a short message waits for a part of a long one, not for all parts. Each part is answered, so
 * parts are long against the cost of an answer.
 *
 * Where a pipe has several queue pairs the parts go over them in turn, so that the last part is the
 * first pair's. The last part of each pair has an immediate:
 *
 *     first    │   │ 1 │   │   │ 4 │ number n has come
 *     second   │ 0 │   │   │ 3 │       its share of n has
 *     third    │   │   │ 2 │           its share of n has
 *
 * The pairs that have a share follow from the length, so both ends know how many shares there are.
 * Each pair keeps its order, so a count of shares is enough.
 * Tested by tests/unit/transport/link/verbs/rail_test.c and on_device_test.c. */
#include "transport/link/verbs/peer.h"

#include "base/log.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <infiniband/verbs.h>

#define PART (128u * 1024) /* of a message, in one request */

/* -- posts ------------------------------------------------------------------------------------- */

/* The memory of a long message; NULL: the message is short, or the memory cannot be registered. */
static const struct gyre_verbs_memory *long_memory(struct gyre_verbs_wire *wire, const void *memory,
                                                   uint64_t length)
{
    return length > GYRE_EAGER_MAX ? gyre_verbs_memory_of(wire, memory, length) : NULL;
}

int gyre_verbs_remote_write_send(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                                 const void *data, uint64_t length, uint64_t token)
{
    struct gyre_stream *stream = pipe->end.stream[0];
    return long_memory(pipe->wire, data, length)
               ? gyre_stream_send_registered(stream, match, data, length, token)
               : gyre_stream_send(stream, match, data, length, token);
}

int gyre_verbs_remote_write_recv(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                                 void *data, uint64_t length, uint64_t token)
{
    struct gyre_verbs_wire *wire = pipe->wire;
    struct gyre_stream *stream = pipe->end.stream[0];
    const struct gyre_verbs_memory *memory = long_memory(wire, data, length);
    if (!memory)
        return gyre_stream_recv(stream, match, data, length, token);
    struct gyre_remote_place place = {.address = (uintptr_t)data};
    for (uint32_t i = 0; i < wire->queues; i++) {
        const struct ibv_mr *registration = gyre_verbs_memory_by(wire, memory, i);
        place.key[i] = registration ? registration->rkey : 0;
    }
    return gyre_stream_recv_registered(stream, match, data, length, token, &place);
}

/* -- arrivals ---------------------------------------------------------------------------------- */

/* A device must see what the cards have written into its memory. */
static int show_to_device(const struct gyre_verbs_wire *wire)
{
    struct gyre_trouble trouble = {0};
    int status = gyre_lookup_flush(wire->lookup, &trouble);
    if (status)
        gyre_log(GYRE_LOG_WARN, "verbs: what came by RDMA cannot be shown to a device: %s",
                 trouble.text);
    return status;
}

int gyre_verbs_remote_write_arrived(struct gyre_verbs_pipe *pipe, uint32_t number)
{
    struct gyre_stream_arrival arrival;
    bool found = gyre_stream_arrival_of(pipe->end.stream[0], number, &arrival);
    int status = found && arrival.on_device ? show_to_device(pipe->wire) : 0;
    return status ? status : gyre_stream_arrived(pipe->end.stream[0], number);
}

/* -- shares ------------------------------------------------------------------------------------ */

static uint64_t parts_of(uint64_t length)
{
    return (length + PART - 1) / PART;
}

static uint32_t *count_of(struct gyre_verbs_queue *queue, bool out)
{
    return out ? &queue->shares_left : &queue->shares_come;
}

bool gyre_verbs_remote_write_is_whole(struct gyre_verbs_pipe *pipe, uint64_t length, bool out)
{
    uint64_t parts = parts_of(length);
    uint32_t shares = parts < pipe->ways ? (uint32_t)parts : pipe->ways;
    for (uint32_t i = 1; i < shares; i++)
        if (!*count_of(pipe->way[i], out))
            return false;
    for (uint32_t i = 1; i < shares; i++)
        --*count_of(pipe->way[i], out);
    return true;
}

/* -- writing ----------------------------------------------------------------------------------- */

static bool begin_write(struct gyre_verbs_pipe *pipe)
{
    if (pipe->writing)
        return true;
    if (!gyre_stream_take_write(pipe->end.stream[0], &pipe->write))
        return false;
    const struct gyre_verbs_memory *found =
        gyre_verbs_memory_of(pipe->wire, pipe->write.from, pipe->write.length);
    if (!found) {
        gyre_verbs_fail(pipe->queue, -EFAULT, "memory of a message was freed while it was sent");
        return false;
    }
    for (uint32_t i = 0; i < pipe->wire->queues; i++) {
        const struct ibv_mr *registration = gyre_verbs_memory_by(pipe->wire, found, i);
        pipe->write_key[i] = registration ? registration->lkey : 0;
    }
    pipe->writing = true;
    pipe->write_on_device = found->on_device;
    pipe->write_at = 0;
    return true;
}

static uint64_t parts_left(const struct gyre_verbs_pipe *pipe)
{
    return parts_of(pipe->write.length - pipe->write_at);
}

static struct gyre_verbs_queue *next_queue(const struct gyre_verbs_pipe *pipe)
{
    return pipe->way[(parts_left(pipe) - 1) % pipe->ways];
}

static void write_part(struct gyre_verbs_pipe *pipe)
{
    const struct gyre_stream_write *write = &pipe->write;
    struct gyre_verbs_queue *queue = next_queue(pipe);
    ptrdiff_t number = queue - pipe->queue;
    uint64_t left = write->length - pipe->write_at;
    bool last = parts_left(pipe) <= pipe->ways; /* on this queue pair */
    struct gyre_verbs_request request = {.from = write->from + pipe->write_at,
                                         .key = pipe->write_key[number],
                                         .length = left < PART ? (uint32_t)left : PART,
                                         .on_device = pipe->write_on_device,
                                         .to = write->place.address + pipe->write_at,
                                         .to_key = write->place.key[number],
                                         .tells = last,
                                         .kind = GYRE_VERBS_ARRIVED,
                                         .word = write->number,
                                         .ends = last ? write->send : NULL};
    pipe->write_at += request.length;
    pipe->wire->moved += request.length;
    pipe->writing = pipe->write_at < write->length;
    pipe->announced += !pipe->writing;
    gyre_verbs_queue_put(queue, &request);
}

bool gyre_verbs_remote_write_push(struct gyre_verbs_pipe *pipe)
{
    bool moved = false;
    while (!pipe->end.status && gyre_verbs_queue_room(pipe->queue) > GYRE_VERBS_SENDS / 2 &&
           begin_write(pipe) && gyre_verbs_queue_room(next_queue(pipe))) {
        write_part(pipe);
        moved = true;
    }
    return moved;
}
