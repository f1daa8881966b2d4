/* Headers that need not travel.
 *
 *     a message of 4096 bytes behind its header     │ 32 + 4064 │ 32 │     two packets
 *     where the other end can write the header      │    4096   │          one
 *
 * Messages are often as long as a packet, or as two or four; a header makes another packet then. A
 * header may stay away if it is the last one but for a sequence that is ahead by 1 to 15. The
 * immediate tells that difference. The receiver writes the header before the payload in its inbox,
 * where the sender left room, and reads the record as any other. In the outbox the record is whole,
 * for a fallback.
 *
 * "The last one" is the header of the inbox's last record that was one whole frame. The immediate
 * tells which records are, so both ends know it, whatever went by other ways meanwhile. */
#include "transport/link/verbs/peer.h"

#include "transport/stream/frame.h"

#include <string.h>

_Static_assert(GYRE_VERBS_HEAD == GYRE_FRAME_BYTES, "a pipe remembers a header");

static uint32_t packets(const struct gyre_verbs_pipe *pipe, uint32_t bytes)
{
    int mine = pipe->queue->mine.mtu, theirs = pipe->queue->theirs.mtu;
    uint32_t packet = 128u << (mine < theirs ? mine : theirs);
    return (bytes + packet - 1) / packet;
}

bool gyre_verbs_head_write(const uint8_t last[GYRE_VERBS_HEAD], uint32_t advance, uint8_t *record)
{
    struct gyre_frame frame;
    if (gyre_frame_decode(last, &frame))
        return false;
    frame.match.sequence += advance;
    gyre_frame_encode(&frame, record);
    return true;
}

/* Compares the header with the one that the receiver would write. */
uint32_t gyre_verbs_head_advance(const struct gyre_verbs_pipe *pipe, const uint8_t *record,
                                 uint32_t length)
{
    struct gyre_frame last, next;
    uint8_t written[GYRE_VERBS_HEAD];
    if (packets(pipe, length - GYRE_FRAME_BYTES) == packets(pipe, length) ||
        gyre_frame_decode(pipe->head_out, &last) || gyre_frame_decode(record, &next))
        return 0;
    uint64_t advance = next.match.sequence - last.match.sequence;
    return advance <= GYRE_VERBS_ADVANCE &&
                   gyre_verbs_head_write(pipe->head_out, (uint32_t)advance, written) &&
                   memcmp(written, record, sizeof written) == 0
               ? (uint32_t)advance
               : 0;
}
