/* The frame: 32 bytes before every piece of payload on a byte stream. All wire constants of the data path are here.
 *
 *    0        4      6      8                16     18     20               28     32
 *    | length | epoch| comm | sequence       | lane | order| fingerprint    | crc  | payload …
 *
 * Little endian. The top 4 bits of `length` are the kind, the next 4 are zero, the low 24 the payload's bytes. crc is the
 * CRC-32C of the first 28 bytes followed by the payload. */
#ifndef GYRE_TRANSPORT_FRAME_H
#define GYRE_TRANSPORT_FRAME_H

#include "transport/match.h"

#include <stddef.h>

#define GYRE_FRAME_BYTES 32
#define GYRE_FRAME_PAYLOAD_MAX (256u * 1024) /* one frame; a longer message is several frames, in order */
#define GYRE_EAGER_MAX (16u * 1024)          /* a longer message waits for the receiver's GRANT */
#define GYRE_UNEXPECTED_BYTES (64u * 1024)   /* store per peer for messages whose receive is not posted yet */
#define GYRE_UNEXPECTED_CHARGE 64u           /* each stored message counts its payload plus this */

enum gyre_frame_kind {
    GYRE_FRAME_DATA = 1,  /* payload of the named message; pieces of one message follow each other in order */
    GYRE_FRAME_GRANT = 2, /* the named message may come now; payload: its length, 8 bytes */
    GYRE_FRAME_CREDIT = 3, /* `sequence` is the running total of store bytes given back */
    GYRE_FRAME_BYE = 4     /* nothing follows */
};

struct gyre_frame {
    enum gyre_frame_kind kind;
    uint32_t length; /* payload bytes */
    uint16_t epoch;
    struct gyre_match match;
    uint32_t crc;
};

/* Pure. encode() computes the sum over header and `payload` (may be NULL when length is 0). decode() checks kind and
 * limits only and returns 0 or GYRE_CORRUPT; verify() checks the sum, given the CRC of the payload alone. */
void gyre_frame_encode(const struct gyre_frame *frame, const void *payload, uint8_t out[GYRE_FRAME_BYTES]);
int gyre_frame_decode(const uint8_t in[GYRE_FRAME_BYTES], struct gyre_frame *frame);
bool gyre_frame_verify(const uint8_t in[GYRE_FRAME_BYTES], uint32_t payload_crc, uint32_t payload_length);

#endif
