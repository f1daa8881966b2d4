/* The frame on the wire: fixed offsets, little endian, nothing that depends on a compiler's idea of
 * a struct.
 *
 * decode() is the first thing that looks at bytes from a peer, so it refuses every header that no
 * honest peer writes: a wrong sum, an unknown kind, a set reserved bit, a length that its kind
 * cannot have. What it lets through is what an encode() wrote, but for damage that a CRC-32C of 28
 * bytes misses: of up to 5 bits none, of more one case in 2^32. With keys only the tag tells who
 * wrote it. */
#include "transport/stream/frame.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/status.h"

#include <string.h>

#define SUMMED_BYTES 28 /* of the header: all but the sum itself */
#define KIND_SHIFT   28
#define SUMMED_SHIFT 24
#define LENGTH_MASK  0xffffffu

enum offset {
    AT_LENGTH = 0,
    AT_EPOCH = 4,
    AT_COMM = 6,
    AT_SEQUENCE = 8,
    AT_LANE = 16,
    AT_ORDER = 18,
    AT_FINGERPRINT = 20,
    AT_SUM = 28,
    AT_PAYLOAD_SUM = 32
};

static bool length_fits(uint32_t kind, uint32_t length)
{
    switch (kind) {
    case GYRE_FRAME_DATA:
        return length <= GYRE_EAGER_MOST;
    case GYRE_FRAME_PIECE:
        return length <= GYRE_FRAME_PAYLOAD_MAX;
    case GYRE_FRAME_GRANT:
    case GYRE_FRAME_ASK:
        return length == sizeof(uint64_t);
    case GYRE_FRAME_POINT:
        return length == 2 * sizeof(uint64_t);
    case GYRE_FRAME_PLACE:
        return length == GYRE_FRAME_PLACE_BYTES;
    case GYRE_FRAME_RECALL:
    case GYRE_FRAME_SPARED:
    case GYRE_FRAME_TAKEN:
    case GYRE_FRAME_CREDIT:
    case GYRE_FRAME_BYE:
    case GYRE_FRAME_VOID:
    case GYRE_FRAME_BLANK:
        return length == 0;
    default:
        return false;
    }
}

uint32_t gyre_frame_sum(const uint8_t in[GYRE_FRAME_BYTES])
{
    return gyre_crc32c(0, in, SUMMED_BYTES);
}

void gyre_frame_encode(const struct gyre_frame *frame, uint8_t out[GYRE_FRAME_BYTES])
{
    gyre_put32(out + AT_LENGTH, (uint32_t)frame->kind << KIND_SHIFT |
                                    (uint32_t)frame->summed << SUMMED_SHIFT | frame->length);
    gyre_put16(out + AT_EPOCH, frame->epoch);
    gyre_put16(out + AT_COMM, frame->match.comm);
    gyre_put64(out + AT_SEQUENCE, frame->match.sequence);
    gyre_put16(out + AT_LANE, frame->match.lane);
    gyre_put16(out + AT_ORDER, frame->match.order);
    gyre_put64(out + AT_FINGERPRINT, frame->match.fingerprint);
    gyre_put32(out + AT_SUM, gyre_frame_sum(out));
}

void gyre_frame_sum_payload(uint8_t head[GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES],
                            const void *payload, uint32_t length)
{
    uint32_t sum = gyre_get32(head + AT_SUM);
    gyre_put32(head + AT_PAYLOAD_SUM, length > 0 ? gyre_crc32c(sum, payload, length) : sum);
}

uint32_t gyre_frame_payload_sum(const uint8_t head[GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES])
{
    return gyre_get32(head + AT_PAYLOAD_SUM);
}

int gyre_frame_decode(const uint8_t in[GYRE_FRAME_BYTES], struct gyre_frame *frame)
{
    uint32_t word = gyre_get32(in + AT_LENGTH);
    uint32_t kind = word >> KIND_SHIFT, length = word & LENGTH_MASK;
    uint32_t sum = gyre_get32(in + AT_SUM);
    if (sum != gyre_frame_sum(in) || (word >> SUMMED_SHIFT & 0xe) != 0 ||
        !length_fits(kind, length)) {
        return GYRE_CORRUPT;
    }
    *frame = (struct gyre_frame){.kind = (enum gyre_frame_kind)kind,
                                 .length = length,
                                 .summed = word >> SUMMED_SHIFT & 1,
                                 .epoch = gyre_get16(in + AT_EPOCH),
                                 .match = {.comm = gyre_get16(in + AT_COMM),
                                           .lane = gyre_get16(in + AT_LANE),
                                           .order = gyre_get16(in + AT_ORDER),
                                           .sequence = gyre_get64(in + AT_SEQUENCE),
                                           .fingerprint = gyre_get64(in + AT_FINGERPRINT)},
                                 .sum = sum};
    return 0;
}
