/* Payload of messages that arrived before their receive was posted, in small blocks.
 *
 * The store never has to check for room: the sender's credit charges each message its payload and
 * GYRE_UNEXPECTED_CHARGE more, and the caller checks that the peer kept to its credit. Then the
 * blocks suffice however messages come and go. */
#ifndef GYRE_TRANSPORT_STREAM_STORE_H
#define GYRE_TRANSPORT_STREAM_STORE_H

#include "transport/stream/frame.h"

#define GYRE_STORE_BLOCK 64u

_Static_assert(GYRE_STORE_BLOCK <= GYRE_UNEXPECTED_CHARGE,
               "a message's charge covers its last, partly filled block");

struct gyre_unexpected {
    uint16_t *next;  /* of a message's blocks, or of the free blocks */
    uint16_t free;   /* first free block that was used before */
    uint16_t fresh;  /* blocks from here on were never used */
    uint16_t blocks; /* in all */
    uint8_t (*block)[GYRE_STORE_BLOCK];
};

struct gyre_parcel { /* one message's payload in the store */
    uint32_t length;
    uint16_t first, last;
};

/* Makes a store. `memory` is zeroed, gyre_unexpected_bytes(bytes) long and outlives the store;
 * bytes at most 2 MiB. */
size_t gyre_unexpected_bytes(uint32_t bytes);
void gyre_unexpected_init(struct gyre_unexpected *store, void *memory, uint32_t bytes);
void gyre_unexpected_append(struct gyre_unexpected *store, struct gyre_parcel *parcel,
                            const void *bytes, uint32_t length);
void gyre_unexpected_take(struct gyre_unexpected *store, struct gyre_parcel *parcel,
                          void *out); /* copies out and frees */

#endif
