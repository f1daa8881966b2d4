/* Host memory of this node that a link's ends can read in place, never a device's. Whoever opens a wire passes these two
 * look-ups in; they neither block nor call back. */
#ifndef GYRE_TRANSPORT_SIGHT_H
#define GYRE_TRANSPORT_SIGHT_H

#include <stdint.h>

struct gyre_sight {
    void *context;

    /* The region of this process that all peers of the node have mapped and that holds the span,
     * and where in it; 0: there is none. */
    uint32_t (*locate)(void *context, const void *memory, uint64_t length, uint64_t *offset);

    /* A span of a peer's region, as it is mapped here; NULL: it is not, or not yet. */
    void *(*view)(void *context, uint32_t peer, uint32_t region, uint64_t offset, uint64_t length);
};

#endif
