/* A plan is an operation prepared: its algorithm, its cut, and the form in which the engine will
 * run it.
 *
 * A plan depends only on what is equal on all ranks (operation, count, type, reduction, root,
 * algorithm, cut): never on addresses, alignment, kind of memory or in-place. So every rank makes
 * the same plan without a message, and a plan is made once and then found again.
 *
 *   STEPS      rounds over message links, in lanes
 *   EXCHANGE   up to 4 KiB on mapped memory: inputs travel in the entry lines, every rank folds
 *   PUSH       larger, on mapped memory: one pass from n sources to m destinations, in place
 *   BLOCKS     an all_to_all_v: one message to every rank and one from it, each of its own length
 *
 * The binder makes EXCHANGE and PUSH of a schedule when all ranks share memory: it follows each
 * byte from the INPUT where it starts to the OUTPUTs where it ends, and keeps only the folds. A
 * plan of form BLOCKS has no schedule; comm/all_to_all_v.c, which sends the messages, makes it. */
#ifndef GYRE_COLLECTIVES_PLAN_PLAN_H
#define GYRE_COLLECTIVES_PLAN_PLAN_H

#include "collectives/kernels/reduce.h"
#include "collectives/plan/bind.h"
#include "collectives/plan/question.h"
#include "collectives/plan/store_policy.h"

#define GYRE_LANES_MAX 8u

enum gyre_plan_form { GYRE_FORM_STEPS, GYRE_FORM_EXCHANGE, GYRE_FORM_PUSH, GYRE_FORM_BLOCKS };

struct gyre_plan_steps {
    uint32_t lanes;            /* slices under way at a time */
    struct gyre_extent extent; /* the larger of full and last slice */
};

struct gyre_plan_exchange {
    struct gyre_rank_moves *moves;
    uint64_t line_bytes;      /* the longest INPUT of any rank */
    uint64_t published_bytes; /* of this rank's; 0: no rank folds it */
};

struct gyre_plan_push {
    enum gyre_copier copier;             /* of the moves in the next two, and in `whole` */
    struct gyre_rank_moves *full, *last; /* of a full and of the last slice */
    /* The same moves made by the senders of copies: better where peers can map every OUTPUT. */
    struct gyre_rank_moves *spread_full, *spread_last;
    struct gyre_rank_moves *whole;          /* in one slice, for devices; NULL: not asked for */
    struct gyre_store_policy *store_policy; /* NULL: as the plan's `stream` says */
    bool read_by_peers, written_by_peers;   /* of this rank's INPUT; of its OUTPUT */
    bool stage_in_place; /* a rank that runs in place shows its INPUT through its stage */
    /* The blocks that peers write take the place of those that they read of a stage. */
    bool stage_in_inbox;
};

struct gyre_plan {
    struct gyre_shape shape;
    const struct gyre_algorithm *algorithm;
    enum gyre_plan_form form;
    uint64_t fingerprint; /* of the shape and the plan; the sequence is mixed in per operation */
    uint64_t signature;   /* the shape packed for messages */

    struct gyre_blocks blocks; /* unequal blocks of OUTPUT, with `at` filled in; NULL: equal */
    uint32_t element;
    uint64_t slices;                  /* into which the operation is cut */
    uint64_t slice_count;             /* elements of every slice but the last */
    uint64_t small;                   /* as in struct gyre_slice */
    const struct gyre_layout *layout; /* the communicator's; NULL: all on one node */

    gyre_fold fold;
    gyre_fold copy;   /* of bytes, from one source, of any alignment */
    uint32_t divisor; /* of an average, 0 otherwise */
    bool stream;      /* all buffers together are larger than the cache */

    uint64_t input_bytes, output_bytes; /* of this rank's buffers */
    uintptr_t in_place;                 /* gyre_shape_distance() */
    uint64_t used;                      /* time of the last use, for the cache */

    union { /* by form; BLOCKS has no fields */
        struct gyre_plan_steps steps;
        struct gyre_plan_exchange exchange;
        struct gyre_plan_push push;
    };
};

/* Makes a plan on the heap. GYRE_INVALID: the algorithm cannot build this operation. */
int gyre_plan_create(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                     struct gyre_plan **plan, struct gyre_trouble *trouble);
void gyre_plan_destroy(struct gyre_plan *plan);

/* The extent whose storage serves both. */
struct gyre_extent gyre_extent_larger(struct gyre_extent a, struct gyre_extent b);

/* Binds a PUSH in one slice, once. False: the schedule does not allow one slice, or this rank has
 * no memory for it now; the rank's line says so, and no rank's device runs the operation. */
bool gyre_plan_bind_whole(struct gyre_plan *plan, uint32_t n, uint32_t rank);

/* Elements of slice `index`. */
uint64_t gyre_plan_slice_count(const struct gyre_plan *plan, uint64_t index);

/* Slice `index` for an algorithm. */
struct gyre_slice gyre_plan_slice(const struct gyre_plan *plan, uint32_t n, uint32_t rank,
                                  uint64_t index);

/* Bytes from the beginning of a buffer to the beginning of its block `block`. */
static inline uint64_t gyre_plan_block_at(const struct gyre_plan *plan, uint32_t block)
{
    return (plan->blocks.at ? plan->blocks.at[block] : block * plan->shape.count) * plan->element;
}

/* The number of elements in so many bytes; every type's size is a power of two. */
static inline uint64_t gyre_plan_elements(const struct gyre_plan *plan, uint64_t bytes)
{
    return bytes >> __builtin_ctz(plan->element);
}

/* Whether an operation of this shape may have these buffers. */
static inline bool gyre_plan_takes(const struct gyre_plan *plan, const void *input,
                                   const void *output)
{
    uintptr_t in = (uintptr_t)input, out = (uintptr_t)output;
    if ((!in && plan->input_bytes) || (!out && plan->output_bytes))
        return false;
    return out - in == plan->in_place ||
           !gyre_buffers_overlap(in, plan->input_bytes, out, plan->output_bytes);
}

#endif
