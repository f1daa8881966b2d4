/* The board: what one rank shows to the others of its node. The board lies in shared memory that
 * only its rank can write.
 *
 *   finished             turns that this rank needs nothing of any more: the reader's own counter
 *   line[turn % 16]      "I am in this operation, it is this one, and my data is here"
 *   progress[turn % 16]  how far this rank is inside it
 *   payload[turn % 16]   inputs of up to 4 KiB that do not fit into the line
 *   stage                inputs that live in memory which peers cannot map, slice by slice
 *
 * A turn is an operation on mapped memory, counted from 1 on every rank alike. A line is written
 * again only when every peer's `finished` has passed the turn that used the line, 16 turns ago. So
 * a rank that runs ahead (a broadcast's root) stops there, and nothing is reused by guess.
 *
 * Peers can write the second region, the inbox: they put finished blocks there for a rank whose
 * OUTPUT they cannot map. Where a plan allows, the inbox also shows what peers read of INPUT, and
 * what peers write takes its place; then nothing goes through the stage. */
#ifndef GYRE_COLLECTIVES_MAPPED_BOARD_H
#define GYRE_COLLECTIVES_MAPPED_BOARD_H

#include "collectives/choose/limits.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define GYRE_BOARD_SLOTS  16u
#define GYRE_LINE_PAYLOAD 48u
#define GYRE_STAGE_SLOTS  4u

/* Where a rank's buffers are. A region is one of its own that peers have mapped; 0: peers go
 * through stage and inbox. */
struct gyre_announcement {
    uint64_t input_offset, output_offset;
    uint32_t input_region, output_region;
    bool device; /* the regions are a device's, of use only where every rank says so */
};

struct gyre_line {
    alignas(64) _Atomic uint64_t stamp; /* the turn; written last */
    uint64_t fingerprint;
    union {
        uint8_t payload[GYRE_LINE_PAYLOAD];
        struct gyre_announcement places;
    };
};

/* How far a rank is inside an operation, in slices. */
struct gyre_slice_progress {
    alignas(64) _Atomic uint64_t staged; /* slices of its INPUT that may be read */
    _Atomic uint64_t drained;            /* slices of its inbox that are empty again */
    alignas(64) _Atomic uint64_t pushed; /* slices that it has read and written everywhere */
};

struct gyre_board {
    alignas(64) _Atomic uint64_t finished;
    struct gyre_line line[GYRE_BOARD_SLOTS];
    struct gyre_slice_progress progress[GYRE_BOARD_SLOTS];
    alignas(64) uint8_t payload[GYRE_BOARD_SLOTS][GYRE_EXCHANGE_MAX];
    alignas(4096) uint8_t stage[GYRE_STAGE_SLOTS][GYRE_STAGE_BYTES];
};

struct gyre_inbox {
    alignas(4096) uint8_t stage[GYRE_STAGE_SLOTS][GYRE_STAGE_BYTES];
};

_Static_assert(sizeof(struct gyre_line) == 64, "one line is one cache line");

#endif
