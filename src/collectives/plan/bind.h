/* The binder: from a schedule to the moves of one rank on memory that all ranks share. */
#ifndef GYRE_COLLECTIVES_PLAN_BIND_H
#define GYRE_COLLECTIVES_PLAN_BIND_H

#include "collectives/schedule/schedule.h"

/* Some bytes of one rank's INPUT or OUTPUT: of block `block` (0 where the buffer is one block),
 * from byte `offset` of the slice's part of the block. In the rank's own memory the block begins
 * where the caller put it. In a stage or an inbox the slice's parts of all blocks lie side by
 * side. */
struct gyre_block_ref {
    uint32_t rank, block;
    uint64_t offset;
};

/* One pass over memory: destination[*] = fold of source[*], `length` bytes. A single source is a
 * copy. */
struct gyre_move {
    uint64_t length;
    uint32_t sources, destinations;
    const struct gyre_block_ref *source, *destination;
};

/* A part of this rank's INPUT that peers read, or of its OUTPUT that peers write. Only such parts
 * go through its stage or inbox. */
struct gyre_block_part {
    uint32_t block;
    uint64_t offset, length;
};

/* The moves of one rank for one slice on mapped memory; one piece of memory. */
struct gyre_rank_moves {
    uint32_t moves, reads, writes;
    struct gyre_move *move;
    struct gyre_block_part *read, *written;
};

/* The rank that copies bytes which go unchanged from one rank's INPUT to another's OUTPUT. */
enum gyre_copier { GYRE_RECEIVER_COPIES, GYRE_SENDER_COPIES };

/* Facts about a binding, the same on every rank. */
struct gyre_binding {
    bool stays_at_home; /* every rank writes its own OUTPUT only */
    bool safe_in_place; /* whichever ranks run in place: no INPUT is written while it may be read */
    bool lacks_memory;  /* of this rank alone: another binding would not be its peers' */
};

/* Follows the slice's bytes through all ranks' schedules and returns this rank's moves on mapped
 * memory, for free(). Blocks are taken as equally long. NULL: the schedule cannot be bound, or
 * binding->lacks_memory. */
struct gyre_rank_moves *gyre_bind_rank_moves(const struct gyre_algorithm *algorithm,
                                             const struct gyre_slice *slice,
                                             enum gyre_copier copier, struct gyre_binding *binding);

#endif
