/* The board: the memory by which one rank shows its data to the others of its node. Only its rank
 * can write the board.
 *
 *   finished             the last turn of which this rank needs nothing any more
 *   line[turn % 16]      "I am in this turn, its operation is this one, and my data is here"
 *   progress[turn % 16]  how far this rank is in the turn
 *   stage                inputs in memory that peers cannot map, slice by slice
 *
 * A turn is an operation on mapped memory, counted from 1 on every rank alike. A line is written
 * again only when every peer's `finished` has passed the turn that used the line, 16 turns ago. So
 * a rank that runs ahead (a broadcast's root) stops there, and no line is reused by guess.
 *
 * Peers can write the second region, the inbox: they put finished blocks there for a rank whose
 * OUTPUT they cannot map. Where a plan allows, the inbox also shows the parts of INPUT that peers
 * read, and the blocks that peers write take their place; then nothing goes through the stage. At
 * the front of an inbox, which devices of all ranks can reach, are words and payloads:
 *
 *   word                 peers, or their streams, say how far they are in turns that devices run
 *                        (device/words.h)
 *   payload[turn % 16]   inputs of up to 4 KiB that do not fit into the line; also those that do,
 *                        where all ranks have devices, which read no line */
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

/* The places of a rank's buffers. A region is one of the rank's own that peers have mapped; 0:
 * peers use stage and inbox. */
struct gyre_announcement {
    uint64_t input_offset, output_offset;
    uint32_t input_region, output_region;
    bool device; /* the regions are a device's; used only where every rank says so */
};

/* In the stamp of a line that a host writes for its stream: the payload is in the inbox, and the
 * word `arrived` of the line's rank says when. */
#define GYRE_STAMP_OF_STREAM (UINT64_C(1) << 63)

struct gyre_line {
    alignas(64) _Atomic uint64_t stamp; /* the turn; written last */
    uint64_t fingerprint;
    union {
        uint8_t payload[GYRE_LINE_PAYLOAD];
        struct gyre_announcement places;
    };
};

/* How far a rank is in an operation, in slices. */
struct gyre_slice_progress {
    alignas(64) _Atomic uint64_t staged; /* slices of its INPUT that may be read */
    _Atomic uint64_t drained;            /* slices of its inbox that are empty again */
    /* Slices whose part of all outputs this rank has written. */
    alignas(64) _Atomic uint64_t pushed;
};

struct gyre_board {
    alignas(64) _Atomic uint64_t finished;
    struct gyre_line line[GYRE_BOARD_SLOTS];
    struct gyre_slice_progress progress[GYRE_BOARD_SLOTS];
    alignas(4096) uint8_t stage[GYRE_STAGE_SLOTS][GYRE_STAGE_BYTES];
};

/* What a rank tells each peer in a turn that devices run: its INPUT may be read, and its OUTPUT
 * written; its part of all outputs is written. */
enum gyre_inbox_word { GYRE_WORD_ARRIVED, GYRE_WORD_PUSHED, GYRE_INBOX_WORDS };

/* The same of an operation that was captured into a graph, where values are constants: 1, and 0
 * when the owner of the inbox has seen it. */
#define GYRE_CAPTURED_MAX 64u
struct gyre_captured_words {
    alignas(64) _Atomic uint64_t word[GYRE_INBOX_WORDS][GYRE_PEERS_MAPPED_MAX]; /* by who writes */
    alignas(64) _Atomic uint64_t at; /* the owner's: how far its stream is in a launch */
    _Atomic uint64_t resolved;       /* the owner's: 1: its table is filled */
};

struct gyre_inbox {
    /* By who writes, and by turn % 16. A word's value is the turn. */
    alignas(4096) _Atomic uint64_t word[GYRE_INBOX_WORDS][GYRE_PEERS_MAPPED_MAX][GYRE_BOARD_SLOTS];
    struct gyre_captured_words captured[GYRE_CAPTURED_MAX];
    _Atomic uint64_t rest[GYRE_PEERS_MAPPED_MAX]; /* the owner's: what seen words become */
    alignas(4096) uint8_t payload[GYRE_BOARD_SLOTS][GYRE_EXCHANGE_MAX]; /* the owner's */
    alignas(4096) uint8_t stage[GYRE_STAGE_SLOTS][GYRE_STAGE_BYTES];
};

_Static_assert(sizeof(struct gyre_line) == 64, "one line is one cache line");

#endif
