/* Host memory of this process that drivers may use in place, or let peers use; never a device's.
 * Whoever opens a wire passes these look-ups in; they neither block nor call back. */
#ifndef GYRE_TRANSPORT_SIGHT_H
#define GYRE_TRANSPORT_SIGHT_H

#include <stdint.h>

struct gyre_sight {
    void *context;

    /* The region of this process that all peers of the node have mapped and that holds the span,
     * and where in it; 0: there is none. */
    uint32_t (*locate)(void *context, const void *memory, uint64_t length, uint64_t *offset);

    /* The region of this process that holds the span, whoever else sees it: all of it, and an id
     * that no other region has or will have; 0: there is none. NULL: nobody can tell. */
    uint32_t (*hold)(void *context, const void *memory, uint64_t length, void **base,
                     uint64_t *span);

    /* A span of a peer's region, as it is mapped here; NULL: it is not, or not yet. */
    void *(*view)(void *context, uint32_t peer, uint32_t region, uint64_t offset, uint64_t length);
};

#endif
