/* The frame: a header of 32 bytes, what proves its payload, and the payload. All wire constants of
 * the data path are here.
 *
 *    0        4      6      8             16     18     20             28    32
 *    | length | epoch| comm | sequence    | lane | order| fingerprint  | sum | proof | payload …
 *
 * Little endian. The top 4 bits of `length` are the kind, the next 3 are zero, then one says that a
 * sum of the payload follows, and the low 24 are the payload's bytes. The sum is the CRC-32C of the
 * 28 bytes before it: a header proves itself, so a reader waits for no byte that a damaged length
 * has promised.
 *
 * The proof of the payload is one of three, alike at both ends:
 *
 *     with keys (transport/seal/seal.h)   16 bytes: the tag, of header and payload
 *     with sums of payloads                4 bytes: the CRC-32C of the 28 bytes and the payload
 *     inside the memory of one machine     none */
#ifndef GYRE_TRANSPORT_STREAM_FRAME_H
#define GYRE_TRANSPORT_STREAM_FRAME_H

#include "transport/seal/seal.h"
#include "transport/stream/match.h"

#include <stdbool.h>
#include <stddef.h>

#define GYRE_FRAME_BYTES       32                                       /* of the header */
#define GYRE_FRAME_SUM_BYTES   4                                        /* of the payload's sum */
#define GYRE_FRAME_HEAD_MOST   (GYRE_FRAME_BYTES + GYRE_SEAL_TAG_BYTES) /* before the payload */
#define GYRE_FRAME_PAYLOAD_MAX (256u * 1024) /* a longer message is several frames, in order */
/* The default limit of a message that waits for no GRANT. */
#define GYRE_EAGER_MAX         (16u * 1024)
#define GYRE_EAGER_MOST        (64u * 1024) /* the greatest such limit of a stream */
#define GYRE_UNEXPECTED_TIMES  4u           /* the peer's store, in messages of that limit */
#define GYRE_UNEXPECTED_BYTES  (GYRE_UNEXPECTED_TIMES * GYRE_EAGER_MAX)
#define GYRE_UNEXPECTED_CHARGE 64u /* added to the payload of each message in the store */

enum gyre_frame_kind {
    GYRE_FRAME_DATA = 1,   /* a whole message that waits for no GRANT, charged to the store */
    GYRE_FRAME_GRANT = 2,  /* the named message may come; payload: its length, 8 bytes */
    GYRE_FRAME_CREDIT = 3, /* `sequence` is the running total of store bytes given back */
    GYRE_FRAME_BYE = 4,    /* no message follows; grants, credits and withdrawals may */
    GYRE_FRAME_ASK = 5,    /* the named message waits for its grant; payload: its length, 8 bytes */
    GYRE_FRAME_PIECE = 6,  /* of a granted message: in order, full but for the last */
    GYRE_FRAME_VOID = 7,   /* the rest of a granted message was withdrawn and will not come */
    GYRE_FRAME_POINT = 8,  /* a granted message lies in memory that both ends see; payload: its
                              region and the offset there, 8 bytes each */
    GYRE_FRAME_TAKEN = 9,  /* the pointed message has been read */
    /* A GRANT that says where the message may be written; payload: its length, the address, 8 bytes
     * each; a number, and four keys, 4 each. */
    GYRE_FRAME_PLACE = 10,
    GYRE_FRAME_RECALL = 11, /* the named message shall not be written to its place any more */
    GYRE_FRAME_SPARED = 12, /* agrees to a RECALL: the message will come in pieces */
    GYRE_FRAME_BLANK = 13   /* nothing: has the number of a frame that was withdrawn unsent */
};

/* What a PLACE says of memory: its address, and a key for each of several ways to it, as the
 * carriers name them. */
#define GYRE_REMOTE_WRITE_KEYS 4
struct gyre_remote_place {
    uint64_t address;
    uint32_t key[GYRE_REMOTE_WRITE_KEYS];
};

#define GYRE_FRAME_PLACE_BYTES 36u
#define GYRE_FRAME_CONTROL_MAX GYRE_FRAME_PLACE_BYTES /* payload of a control frame, at most */

struct gyre_frame {
    enum gyre_frame_kind kind;
    uint32_t length; /* payload bytes */
    bool summed;     /* the payload's sum stands behind the header */
    uint16_t epoch;
    struct gyre_match match;
    uint32_t sum; /* decode() fills it in, encode() does not read it */
};

/* The functions are pure. encode() writes the header with its sum. decode() checks sum, kind and
 * limits, and returns 0 or GYRE_CORRUPT. A payload's sum goes on from its header's sum. */
void gyre_frame_encode(const struct gyre_frame *frame, uint8_t out[GYRE_FRAME_BYTES]);
int gyre_frame_decode(const uint8_t in[GYRE_FRAME_BYTES], struct gyre_frame *frame);

/* The sum of the first 28 bytes. */
uint32_t gyre_frame_sum(const uint8_t in[GYRE_FRAME_BYTES]);

/* Writes the sum of the payload behind a header that encode() has written. */
void gyre_frame_sum_payload(uint8_t head[GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES],
                            const void *payload, uint32_t length);

/* The payload's sum that stands behind a header. */
uint32_t gyre_frame_payload_sum(const uint8_t head[GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES]);

#endif
