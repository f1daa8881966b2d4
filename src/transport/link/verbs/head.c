/* Headers that need not travel.
 *
 *     a message of 4096 bytes behind its header     │ 32 + 4064 │ 32 │     two packets
 *     where the other end can write the header      │    4096   │          one
 *
 * Messages are often as long as a packet, or as two or four, so that the header alone makes
 * another. One that differs from the one before by its operation's number alone, and that not by
 * much, is told by the difference, in the immediate; the receiver writes the header before the
 * payload in its inbox, where room was left for it, and reads the record as any other. In the
 * outbox the record is whole, for a fallback.
 *
 * "The one before" is the last whole frame that went to the inbox as a record of its own, which the
 * immediate says of it; so both ends know it, whatever went by other ways meanwhile. */
#include "transport/link/verbs/inside.h"

#include "transport/stream/frame.h"

#include <string.h>

_Static_assert(GYRE_VERBS_HEAD == GYRE_FRAME_BYTES, "a pipe remembers a header");

static uint32_t packets(const struct gyre_verbs_pipe *pipe, uint32_t bytes)
{
    int mine = pipe->queue->mine.mtu, theirs = pipe->queue->theirs.mtu;
    uint32_t packet = 128u << (mine < theirs ? mine : theirs);
    return (bytes + packet - 1) / packet;
}

uint32_t gyre_verbs_head_advance(const struct gyre_verbs_pipe *pipe, const uint8_t *record,
                                 uint32_t length)
{
    struct gyre_frame last, next;
    if (packets(pipe, length - GYRE_FRAME_BYTES) == packets(pipe, length) ||
        gyre_frame_decode(pipe->head_out, &last) || gyre_frame_decode(record, &next))
        return 0;
    uint64_t advance = next.match.sequence - last.match.sequence;
    next.match.sequence = last.match.sequence;
    return advance <= GYRE_VERBS_ADVANCE && next.kind == last.kind && next.length == last.length &&
                   next.epoch == last.epoch && next.match.comm == last.match.comm &&
                   next.match.lane == last.match.lane && next.match.order == last.match.order &&
                   next.match.fingerprint == last.match.fingerprint
               ? (uint32_t)advance
               : 0;
}

void gyre_verbs_head_note(uint8_t last[GYRE_VERBS_HEAD], const uint8_t *record)
{
    memcpy(last, record, GYRE_VERBS_HEAD);
}

bool gyre_verbs_head_write(const struct gyre_verbs_pipe *pipe, uint32_t advance, uint8_t *record)
{
    struct gyre_frame frame;
    if (gyre_frame_decode(pipe->head_in, &frame))
        return false;
    frame.match.sequence += advance;
    gyre_frame_encode(&frame, NULL, record);
    return true;
}
