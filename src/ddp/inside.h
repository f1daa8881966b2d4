/* The inside of the engine, for the files of this room only. Its outside is gyre/ddp.h. A file
 * calls only files listed below it.
 *
 *   ddp.c         create: arguments, then ranks; regroup; destroy; engine.h
 *   ranks.c       ranks compared, values of one of them to all, buckets
 *   arguments.c   arguments of create, checked and copied
 *   step.c        begin ─▶ ready … ready ─▶ wait
 *   update.c      gradients clipped, values gathered
 *   memory.c      the memory of gradients and values; laid out anew after the first step
 *   launch.c      the reductions of buckets, the last with notes
 *   behind.c      passes behind them as a graph
 *   wire.c        gradients as a hook encodes them
 *   notes.c       what each rank tells the others in a step
 *   agree.c       the comparison of all ranks
 *   agreement.c   a status and lines of text that all ranks share, for other rooms, too
 *   pieces.c      the places of parameters, and a rank's own part of a bucket
 *   cut.c         parameters ─▶ buckets
 *   numbers.c     passes over gradients
 *   place.c       host memory, or a device's with its queues */
#ifndef GYRE_DDP_INSIDE_H
#define GYRE_DDP_INSIDE_H

#include "base/status.h"
#include "ddp/cut.h"
#include "ddp/engine.h"
#include "model/processor/repeat.h"

#include <gyre/ddp.h>
#include <stdbool.h>

/* A rank's message to all others in a step. Its bytes travel as they are (notes.c). */
struct gyre_ddp_note {
    uint64_t samples;
    double sum[GYRE_DDP_SUMS];
    /* Of the gradients in its blocks, where the norm is a sum over all ranks. */
    double squares;
    uint32_t seen_count; /* number of gradients that became ready; rank 0's order is used */
    uint32_t asks;       /* GYRE_ASKS_STOP and GYRE_ASKS_SKIP */
    int32_t bad;         /* the first place of a NaN: a parameter, or GYRE_BAD_SUM(k) */
    int32_t unused;      /* the first parameter without a gradient in this step; -1: none */
};

#define GYRE_ASKS_STOP  1u
#define GYRE_ASKS_SKIP  2u
#define GYRE_BAD_NONE   (-1)
#define GYRE_BAD_SUM(k) (-2 - (k)) /* and back */

/* The memory in which encoded gradients travel, and what encoding lost. */
struct gyre_ddp_wire_room {
    uint8_t *data;   /* gyre_alloc; an element for each f32 of the memory, and notes */
    float *feedback; /* what encoding lost, added in the next step; NULL: dropped */
    float scale;     /* a power of two; 0: gradients travel unencoded, in the first step */
};

/* What the passes of a step find on a device. */
struct gyre_ddp_block {
    double squares;
    int32_t bad, unused;
};

/* Where gradients and values lie; place.c. All zeros: in host memory. */
struct gyre_ddp_place {
    const struct gyre_device *device;
    struct gyre_processor *on;      /* passes over gradients: one of the two that follow */
    struct gyre_processor *beside;  /* of the engine's own */
    struct gyre_processor *owner;   /* who writes gradients: engine.h; NULL: it is not known */
    struct gyre_device_queue *road; /* reductions */
    void *passes, *road_stream;     /* the streams of both */
    struct gyre_ddp_block *block;   /* on the device; behind it is an empty one */
    double *partials;               /* on the device: workspace for the largest bucket */
    uint8_t *notes;                 /* on the host: as they travel */
    bool passing, reducing, looked; /* since the host has waited: passes, reductions, looks */
    bool leaves;                    /* what a step has found stays there */
    struct gyre_repeat repeat;      /* passes behind the reductions of several ranks */
};

struct gyre_ddp {
    struct gyre_comm *comm;
    struct gyre_comm *former; /* while it is regrouped: whose memory may still be there */
    int rank, n;
    struct gyre_ddp_options options;
    struct gyre_cut_limits limits;
    uint32_t items;
    struct gyre_ddp_item *item;
    struct gyre_cut_item *size; /* the same items, for the cutter */
    uint32_t buffers;
    struct gyre_ddp_item *buffer;

    struct gyre_ddp_place place;
    struct gyre_cut cut;
    uint8_t *gradients;
    uint8_t *values;           /* sharded: laid out as gradients; NULL: the caller's values */
    struct gyre_ddp_hook hook; /* its name is a copy; no `encode`: gradients travel unencoded */
    struct gyre_ddp_wire_room wire;

    /* of the step */
    bool open, adds, no_sync;
    bool clips;     /* the step is over and may be clipped, once */
    double squares; /* of the sum of gradients, where notes carry them */
    /* By rank; this rank writes its own in the step, the others' are received. */
    struct gyre_ddp_note *note;
    bool *ready;       /* by item: written in this part of the step */
    bool *written;     /* by item: written in any part of the step */
    uint32_t *missing; /* by bucket: items that are not ready */
    uint32_t launched;
    struct gyre_work **work; /* by bucket */

    uint32_t *sums;  /* by rank: checksums, while values are compared */
    bool settled;    /* laid out for good */
    uint64_t layout; /* how often it was laid out */
    uint32_t *seen, seen_count;
    bool *named;    /* by item: a warning has called it unused */
    int failed;     /* the status of every later call */
    uint64_t steps; /* completed */
    struct gyre_ddp_result result;
};

/* Returns the status. Every later call returns a failure too. */
static inline int gyre_ddp_fail(struct gyre_ddp *ddp, int status)
{
    if (status < 0 && !ddp->failed)
        ddp->failed = status;
    return status;
}

/* Frees memory of gyre_alloc(), which gyre_shrink() may have given to the new communicator. */
static inline void gyre_ddp_free(const struct gyre_ddp *ddp, void *memory)
{
    if (gyre_free(ddp->comm, memory) && ddp->former)
        gyre_free(ddp->former, memory);
}

/* -- arguments.c ------------------------------------------------------------------------------- */

/* Checks the arguments and copies them to *ddp. The caller frees its lists, also after a
 * failure. */
int gyre_ddp_take_arguments(struct gyre_ddp *ddp, const struct gyre_ddp_parameter *parameter,
                            int parameters, const struct gyre_ddp_options *options);
void gyre_ddp_free_items(struct gyre_ddp_item *item, uint32_t items);

/* -- ranks.c ----------------------------------------------------------------------------------- */

/* Makes an engine of the ranks of ddp->comm: compares their arguments (`refused`: the status where
 * this rank refused its own), gives all the values and buffers of the rank that has completed most
 * steps, the lowest of several, and cuts buckets as for a first step. *from may be NULL.
 * Collective. The trouble is the same on all ranks. */
int gyre_ddp_join_ranks(struct gyre_ddp *ddp, int refused, int *from, struct gyre_trouble *trouble);

/* -- agree.c ----------------------------------------------------------------------------------- */

/* Compares names, shapes, types and options of all ranks; `refused` is the status where this rank
 * refused its own. Collective. The trouble is the same on all ranks. */
int gyre_ddp_agree(struct gyre_ddp *ddp, int refused, struct gyre_trouble *trouble);

/* Ends on all ranks alike where something of one rank's own has failed. Collective. */
int gyre_ddp_agree_on(struct gyre_ddp *ddp, int mine, struct gyre_trouble *trouble);

/* Compares the values of all ranks. Collective. GYRE_CORRUPT names parameter and ranks. */
int gyre_ddp_compare_values(struct gyre_ddp *ddp, struct gyre_trouble *trouble);

/* -- memory.c ---------------------------------------------------------------------------------- */

/* Makes the memory of ddp->cut, with values copied from the caller's; frees it. */
int gyre_ddp_allocate(struct gyre_ddp *ddp);
void gyre_ddp_release(struct gyre_ddp *ddp);

/* Cuts again in the order in which rank 0's gradients became ready, and moves everything there.
 * Collective; between steps. */
int gyre_ddp_settle(struct gyre_ddp *ddp);

/* -- notes.c ----------------------------------------------------------------------------------- */

/* Elements of a type that hold the notes of all ranks; 0: elements of this type cannot. */
uint64_t gyre_ddp_note_elements(const struct gyre_ddp *ddp, enum gyre_type type);

/* Writes this rank's note to its place, and zeros to the places of all others. The sum over all
 * ranks then is all notes, which read_notes() reads. */
void gyre_ddp_write_note(const struct gyre_ddp *ddp, void *to, enum gyre_type type);
void gyre_ddp_read_notes(struct gyre_ddp *ddp, const void *from, enum gyre_type type);

/* The same for memory of this engine's place: through the host. */
int gyre_ddp_put_note(struct gyre_ddp *ddp, void *to, enum gyre_type type);
int gyre_ddp_get_notes(struct gyre_ddp *ddp, const void *from, enum gyre_type type);

/* Gives all notes to every rank, by an operation of its own. Collective. */
int gyre_ddp_gather_notes(struct gyre_ddp *ddp);

static inline struct gyre_ddp_note *gyre_ddp_own_note(const struct gyre_ddp *ddp)
{
    return &ddp->note[ddp->rank];
}

/* -- wire.c ------------------------------------------------------------------------------------ */

extern const struct gyre_ddp_hook gyre_ddp_halves[]; /* by enum gyre_ddp_wire */

/* Whether the hook encodes this bucket; the place of its elements, and their number. */
bool gyre_ddp_is_encoded(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint8_t *gyre_ddp_wire_of(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint64_t gyre_ddp_wire_elements(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* Encode gradients, with feedback; decode this rank's part of the reduced elements. */
void gyre_ddp_encode(struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
void gyre_ddp_decode(struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* Make the wire's memory for ddp->cut; free it; copy scale and feedback from a former one. */
int gyre_ddp_allocate_wire(struct gyre_ddp *ddp);
void gyre_ddp_release_wire(struct gyre_ddp *ddp, struct gyre_ddp_wire_room *wire);
void gyre_ddp_move_wire(struct gyre_ddp *ddp, const uint64_t *old_at,
                        const struct gyre_ddp_wire_room *old);

/* -- pieces.c ---------------------------------------------------------------------------------- */

/* This rank's part of a bucket after the reduction: the whole, or its block. */
uint64_t gyre_ddp_own_first(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint64_t gyre_ddp_own_count(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
void *gyre_ddp_own_gradient(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* -- launch.c ---------------------------------------------------------------------------------- */

/* Starts every bucket that is complete and whose turn has come, but not the last. */
int gyre_ddp_launch_complete(struct gyre_ddp *ddp);

/* Whether that starts one as soon as this item is ready. */
bool gyre_ddp_completes(const struct gyre_ddp *ddp, uint32_t i);

/* Starts the remaining buckets in order and waits for all. Every rank then has the notes of all
 * ranks. Collective. */
int gyre_ddp_reduce_rest(struct gyre_ddp *ddp);

/* Whether notes carry the share of the norm that each rank's blocks have. */
static inline bool gyre_ddp_norm_is_gathered(const struct gyre_ddp *ddp)
{
    return ddp->options.sharded && ddp->options.norm && ddp->n > 1;
}

/* Gives every rank all blocks of a sharded engine's memory: gradients or values. Collective. */
int gyre_ddp_spread_blocks(struct gyre_ddp *ddp, uint8_t *memory);

/* -- behind.c ---------------------------------------------------------------------------------- */

/* Between the two nothing waits for passes. Ends what has begun, if anything has. A step that fails
 * between them leaves it to the next layout of memory to give it up. */
void gyre_ddp_begin_behind(struct gyre_ddp *ddp);
int gyre_ddp_end_behind(struct gyre_ddp *ddp);

/* -- numbers.c --------------------------------------------------------------------------------- */

/* On a device a look and a sum are told by gyre_ddp_take_block() only. */
void gyre_ddp_look(struct gyre_ddp *ddp, const void *data, uint64_t elements, enum gyre_type type,
                   int32_t which, int32_t *bad);
void gyre_ddp_scale(struct gyre_ddp *ddp, void *data, uint64_t elements, enum gyre_type type,
                    double factor);
void gyre_ddp_add_squares(struct gyre_ddp *ddp, const void *data, uint64_t elements,
                          enum gyre_type type, double *sum);
void gyre_ddp_add_own_squares(struct gyre_ddp *ddp, double *sum); /* of all own gradients */

/* -- place.c ----------------------------------------------------------------------------------- */

/* Finds where the caller's values lie. GYRE_INVALID where they lie in several places, or where this
 * rank cannot reduce. */
int gyre_ddp_open_place(struct gyre_ddp *ddp);
void gyre_ddp_close_place(struct gyre_ddp *ddp);

/* Puts passes where they belong with so many ranks; none is under way. */
void gyre_ddp_choose_passes(struct gyre_ddp *ddp);

/* Makes known why a call fails, where the communicator does not know: gyre_error(NULL). */
int gyre_ddp_told(int status, const struct gyre_trouble *told);

/* Memory of the place, as gyre_alloc(); freed by gyre_ddp_free(). Copies and zeros, of whole words,
 * are passes. */
int gyre_ddp_alloc(const struct gyre_ddp *ddp, uint64_t bytes, void **memory);
void gyre_ddp_copy(struct gyre_ddp *ddp, void *to, const void *from, uint64_t bytes);
void gyre_ddp_zero(struct gyre_ddp *ddp, void *to, uint64_t bytes);

/* Passes from now on begin when the caller's stream has come so far; reductions, when the passes
 * have. */
int gyre_ddp_meet_stream(struct gyre_ddp *ddp);
int gyre_ddp_meet_passes(struct gyre_ddp *ddp);

/* The host waits: for the caller's stream and all passes, for all passes, for all reductions. */
int gyre_ddp_await_stream(struct gyre_ddp *ddp);
int gyre_ddp_await_passes(struct gyre_ddp *ddp);
int gyre_ddp_await_road(struct gyre_ddp *ddp);

/* Whether the host leaves looks in the block, and waits for nothing in a step of one rank. */
static inline bool gyre_ddp_leaves_all(const struct gyre_ddp *ddp)
{
    return ddp->place.leaves && ddp->n == 1;
}

/* Begins the block of a step; waits for what was found. *bad stays what it is already; both may be
 * NULL, and stay what they are on the host. */
int gyre_ddp_clear_block(struct gyre_ddp *ddp);
int gyre_ddp_take_block(struct gyre_ddp *ddp, int32_t *bad, double *squares);

#endif
