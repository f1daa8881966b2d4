/* Room for encrypted payloads on their way out: a ring in which each payload lies in one piece.
 *
 *      │ free │ payload │ payload │ free │
 *             begin               end
 *
 * Payloads are given back in the order in which they were taken. */
#ifndef GYRE_TRANSPORT_SEAL_CIPHER_RING_H
#define GYRE_TRANSPORT_SEAL_CIPHER_RING_H

#include <stdbool.h>
#include <stdint.h>

struct gyre_cipher_ring {
    uint8_t *bytes;      /* NULL: nothing is encrypted */
    uint32_t size, most; /* of the ring; of a payload */
    uint32_t begin, end; /* in use: [begin, end), around the end of the ring too */
    uint32_t live;       /* payloads */
};

/* Whether a payload of any length has room. True without `bytes`. */
bool gyre_cipher_ring_has_room(const struct gyre_cipher_ring *ring);

/* Takes room, which there is, for a payload of 1 to `most` bytes. */
uint8_t *gyre_cipher_ring_take(struct gyre_cipher_ring *ring, uint32_t length);

/* Gives the oldest payload back; the payload ends at that offset of `bytes`. */
void gyre_cipher_ring_give(struct gyre_cipher_ring *ring, uint32_t end);

#endif
