/* The ring has room while a payload of the greatest length fits in one piece, behind the newest
 * payload or at the start of the ring. */
#include "transport/seal/cipher_ring.h"

/* Where a payload of any length fits; `size`: nowhere. */
static uint32_t find_room(const struct gyre_cipher_ring *ring)
{
    if (ring->live == 0)
        return 0;
    if (ring->end <= ring->begin)
        return ring->begin - ring->end >= ring->most ? ring->end : ring->size;
    if (ring->size - ring->end >= ring->most)
        return ring->end;
    return ring->begin >= ring->most ? 0 : ring->size;
}

bool gyre_cipher_ring_has_room(const struct gyre_cipher_ring *ring)
{
    return !ring->bytes || find_room(ring) < ring->size;
}

uint8_t *gyre_cipher_ring_take(struct gyre_cipher_ring *ring, uint32_t length)
{
    uint32_t at = find_room(ring);
    if (ring->live++ == 0)
        ring->begin = at;
    ring->end = at + length;
    return ring->bytes + at;
}

void gyre_cipher_ring_give(struct gyre_cipher_ring *ring, uint32_t end)
{
    ring->begin = end;
    ring->live--;
}
