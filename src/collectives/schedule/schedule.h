/* A schedule is data: what moves where, for one rank, in one lane.
 *
 * An algorithm is a pure function of a slice (which rank, how many ranks, how many elements) and of
 * the index of a round. The algorithm writes the steps of that round and nothing else: no pointer,
 * no clock, no allocation, no I/O. So code that knows nothing of an algorithm's idea can print,
 * compare, simulate, prove (collectives/prove/check.h) and run (collectives/engine/engine.h) a
 * schedule.
 *
 *   lane      One slice of the data, run by itself. The caller cuts a large operation into slices,
 *             and each lane that runs has its own SCRATCH. Lanes never wait for each other.
 *   round     Steps that do not depend on each other. They are posted together, receives first.
 *             The round ends when this rank's own steps have ended. There is no barrier.
 *   step      SEND, RECV, REDUCE or COPY. Operands are a buffer and a byte offset in it.
 *
 * Rules that every schedule keeps and collectives/prove/check.h proves:
 *   - The RECV that matches a SEND stands in the same round of the peer, with the same length.
 *     Between two ranks there is at most one message per direction and round. So (comm, sequence,
 *     lane, round) names a message.
 *   - No byte is written twice, or written and read, by two steps of one round. The rule holds
 *     whether INPUT and OUTPUT are one buffer or two; each rank chooses that for itself. A REDUCE
 *     or COPY may land exactly on its own source. A COPY from INPUT to the same place of OUTPUT may
 *     stand beside steps that read that INPUT: in place such a COPY does nothing.
 *   - INPUT is never written. SCRATCH and OUTPUT are undefined until written. No step names a
 *     buffer that its rank does not have: a rank that folds and has no OUTPUT folds into SCRATCH
 *     and sends from there. In `direct`, a reduce has one REDUCE into a place of SCRATCH that no
 *     other step uses, and one SEND of exactly that place.
 *   - Exactly one REDUCE per element of OUTPUT carries GYRE_STEP_FINAL, on the rank that completes
 *     the element. */
#ifndef GYRE_COLLECTIVES_SCHEDULE_SCHEDULE_H
#define GYRE_COLLECTIVES_SCHEDULE_SCHEDULE_H

#include "collectives/schedule/verbs.h"

#include <stddef.h>

enum gyre_step_kind { GYRE_SEND, GYRE_RECV, GYRE_REDUCE, GYRE_COPY };

#define GYRE_STEP_FINAL 1u /* REDUCE: the result is complete, an average is divided here */

struct gyre_place {
    enum gyre_buffer buffer;
    uint64_t offset; /* bytes, relative to the slice's first byte in INPUT and OUTPUT */
};

struct gyre_step {
    enum gyre_step_kind kind;
    uint32_t flags;
    uint32_t peer;           /* SEND, RECV */
    uint32_t first, sources; /* REDUCE, COPY: from round->source[first] on, in order */
    struct gyre_place at;    /* SEND: what is sent; otherwise what is written */
    uint64_t length;         /* bytes; an empty message is sent too: the peer waits for it */
};

/* One round. The owner makes the arrays (gyre_round_init); the algorithm fills them through
 * gyre_round_send() and the functions beside it. */
struct gyre_round {
    struct gyre_step *step;
    struct gyre_place *source;
    uint32_t steps, step_max;
    uint32_t sources, source_max;
    bool overflow; /* more steps or sources than the extent promises: a defect of the algorithm */
};

/* Blocks of unequal length (all_gather_v, all_to_all_v): offset and number of elements, by rank. */
struct gyre_blocks {
    const uint64_t *at, *count;
};

/* Which ranks share a node; the same on every rank. */
struct gyre_layout {
    uint32_t nodes;
    const uint32_t *node;  /* of a rank */
    const uint32_t *order; /* ranks, node after node, ascending within a node */
    const uint32_t *place; /* of a rank in `order` */
    const uint32_t *start; /* of a node in `order`; nodes + 1 entries */
};

/* One lane's task: elements first … first + count - 1 of the operation, or of each of its blocks.
 * Offsets of steps count from the first of these elements; gyre_slice_block() says where blocks
 * are. */
struct gyre_slice {
    enum gyre_verb verb;
    uint32_t n, rank;
    uint32_t root;    /* of a verb that has one; 0 otherwise */
    uint32_t element; /* bytes of one element */
    uint64_t count;   /* elements of the slice, in each block; may be less than n, or 0 */
    uint64_t first;   /* elements of the operation, or of each block, before the slice */
    uint64_t stride;  /* elements from one block to the next, where there are n of equal length */
    struct gyre_blocks in, out; /* unequal blocks; NULL: equal */
    uint64_t small; /* bytes up to which fewer rounds beat fewer bytes on these links; 0: 4 KiB */
    const struct gyre_layout *layout; /* NULL: all ranks on one node */
    /* This rank's choice; changes only its COPY steps and what its SENDs read. */
    bool in_place;
    bool rounds_partials; /* partial sums would be rounded: the accumulator is a wider type */
};

struct gyre_span {
    uint64_t at, bytes; /* at: from the slice's first byte */
};

/* This slice's part of block `rank` of a buffer that holds n blocks, on this rank or another. */
struct gyre_span gyre_slice_in_block(const struct gyre_slice *slice, uint32_t rank);
struct gyre_span gyre_slice_out_block(const struct gyre_slice *slice, uint32_t rank);

/* Bytes of `blocks` blocks, from block `first` on; block 0 follows the last. */
uint64_t gyre_slice_in_run(const struct gyre_slice *slice, uint64_t first, uint32_t blocks);
uint64_t gyre_slice_out_run(const struct gyre_slice *slice, uint64_t first, uint32_t blocks);

/* Part `index` of a span cut into `parts` by whole elements. The first parts are an element
 * longer. */
struct gyre_span gyre_slice_cut(const struct gyre_slice *slice, struct gyre_span whole,
                                uint64_t parts, uint64_t index);

/* The span of a slice without blocks. */
struct gyre_span gyre_slice_whole(const struct gyre_slice *slice);

/* A rank's share of the data, where all ranks have shares: its block where the verb has blocks,
 * else one of n parts. The first parts are an element longer. */
struct gyre_span gyre_slice_share(const struct gyre_slice *slice, uint32_t rank);

/* The bytes of all shares. */
uint64_t gyre_slice_all_bytes(const struct gyre_slice *slice);

/* The number of blocks that this rank has of INPUT or OUTPUT: 0, 1 or n. */
uint32_t gyre_slice_blocks(const struct gyre_slice *slice, enum gyre_buffer buffer);

/* The slice's part of block `i` of INPUT or OUTPUT. */
struct gyre_span gyre_slice_block(const struct gyre_slice *slice, enum gyre_buffer buffer,
                                  uint32_t i);

/* Bytes between the buffers of a rank that works in place: INPUT + x is OUTPUT + x + shift. */
int64_t gyre_slice_shift(const struct gyre_slice *slice);

/* The needs of a slice. `rounds` is exact and the same on every rank, though many rounds of one
 * rank may be empty. `scratch_bytes` is exact for the fullest rank. The rest are upper bounds. */
struct gyre_extent {
    uint64_t rounds;
    uint64_t scratch_bytes;
    uint32_t step_max, source_max; /* of any one round */
    uint64_t idle_rounds;          /* rounds in which only ranks that work in place have steps */
};

struct gyre_algorithm {
    const char *name;
    const char *summary; /* one line for `gyre show` */
    uint32_t verbs;      /* bit 1 << verb for each operation that the algorithm builds */
    /* Each element is the left fold over ranks 0 … n-1, rounded once, and depends on nothing else.
     * Ranks may pass on partial folds unless the slice rounds partials. */
    bool rank_order;
    /* Whether the algorithm builds this slice: equal on all ranks, for every count. NULL:
     * always. */
    bool (*suits)(const struct gyre_slice *slice);
    struct gyre_extent (*extent)(const struct gyre_slice *slice);
    /* Appends the steps of one round to an empty one. */
    void (*round)(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round);
    /* The formula for the bytes that this rank sends in all rounds. */
    uint64_t (*sent_bytes)(const struct gyre_slice *slice);
};

/* For people: "INPUT", "SEND". Indexed by enum gyre_buffer, gyre_step_kind. */
extern const char *const gyre_buffer_name[];
extern const char *const gyre_step_kind_name[];

/* Allocates room for every round that the extent promises. -ENOMEM; deinit the round in any
 * case. */
int gyre_round_init(struct gyre_round *round, const struct gyre_extent *extent);
void gyre_round_deinit(struct gyre_round *round);

void gyre_round_clear(struct gyre_round *round);
void gyre_round_send(struct gyre_round *round, uint32_t peer, struct gyre_place from,
                     uint64_t length);
void gyre_round_recv(struct gyre_round *round, uint32_t peer, struct gyre_place to,
                     uint64_t length);
void gyre_round_copy(struct gyre_round *round, struct gyre_place to, struct gyre_place from,
                     uint64_t length);
/* Opens a REDUCE with its destination. Its sources follow, in order, until the next step. */
void gyre_round_reduce(struct gyre_round *round, struct gyre_place to, uint64_t length,
                       uint32_t flags);
void gyre_round_source(struct gyre_round *round, struct gyre_place from);

static inline struct gyre_place gyre_at(enum gyre_buffer buffer, uint64_t offset)
{
    return (struct gyre_place){buffer, offset};
}

#endif
