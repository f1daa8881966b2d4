/* The engine's inside, for the files of this room only. Its outside is gyre/ddp.h. A file calls
 * only those below it.
 *
 *   ddp.c         create: arguments, agreement, buckets, values of rank 0 to all; destroy
 *   arguments.c   what create was given, looked at and copied
 *   step.c        begin ─▶ ready … ready ─▶ wait
 *   update.c      gradients clipped, values gathered
 *   memory.c      the memory of gradients and values; laid out anew after the first step
 *   launch.c      buckets on their way, the last with notes
 *   wire.c        gradients as a hook encodes them
 *   notes.c       what ranks tell each other in a step
 *   agree.c       are all ranks alike?
 *   pieces.c      where a parameter lies, and what of a bucket is this rank's
 *   cut.c         parameters ─▶ buckets
 *   numbers.c     passes over gradients
 */
#ifndef GYRE_DDP_INSIDE_H
#define GYRE_DDP_INSIDE_H

#include "base/status.h"
#include "ddp/cut.h"

#include <gyre/ddp.h>
#include <stdbool.h>

struct gyre_ddp_item { /* a parameter or a buffer */
    char *name;
    enum gyre_type type;
    int dimensions;
    uint64_t shape[GYRE_DDP_DIMENSIONS];
    uint64_t elements;
    void *value; /* the caller's */
};

/* What a rank tells all others in a step; its bytes travel as they are (notes.c). */
struct gyre_ddp_note {
    uint64_t samples;
    double sum[GYRE_DDP_SUMS];
    double squares;      /* of its blocks, where the norm is made of all ranks' */
    uint32_t seen_count; /* gradients that were ready: the order of rank 0's counts */
    uint32_t asks;       /* GYRE_ASKS_STOP and GYRE_ASKS_SKIP */
    int32_t bad;         /* where it has a NaN first: a parameter, or GYRE_BAD_SUM(k) */
    int32_t unused; /* the first parameter that its samples left without a gradient; -1: none */
};

#define GYRE_ASKS_STOP  1u
#define GYRE_ASKS_SKIP  2u
#define GYRE_BAD_NONE   (-1)
#define GYRE_BAD_SUM(k) (-2 - (k)) /* and back */

/* How gradients travel that a hook encodes, and what it could not bring back. */
struct gyre_ddp_wire_room {
    uint8_t *data;   /* gyre_alloc; an element for each f32 of the memory, and notes */
    float *feedback; /* NULL: forgotten */
    float scale;     /* a power of two; 0: as they are, in the first step */
};

struct gyre_ddp {
    struct gyre_comm *comm;
    int rank, n;
    struct gyre_ddp_options options;
    struct gyre_cut_limits limits;
    uint32_t items;
    struct gyre_ddp_item *item;
    struct gyre_cut_item *size; /* the same, as the cutter wants them */

    struct gyre_cut cut;
    uint8_t *gradients;
    uint8_t *values; /* sharded: laid out as gradients; NULL: the caller's */
    struct gyre_ddp_hook
        hook; /* its name is the engine's; no `encode`: gradients travel as they are */
    struct gyre_ddp_wire_room wire;

    /* of the step */
    bool open, adds, no_sync;
    bool clips;                 /* it may be clipped: ended, and not clipped yet */
    struct gyre_ddp_note *note; /* by rank; its own is written in the step, the others' come */
    bool *ready;                /* by item, in this part */
    bool *written;              /* by item, in any part of the step */
    uint32_t *missing;          /* by bucket: items not ready */
    uint32_t launched;
    struct gyre_work **work; /* by bucket */

    uint32_t *sums; /* by rank: of values, while they are compared */
    bool settled;   /* cut for good */
    uint32_t *seen, seen_count;
    bool *named; /* by item: told to be unused */
    int failed;  /* status of every later call */
    uint64_t steps;
    struct gyre_ddp_result result;
};

/* Returns the status, which every later call returns too if it is a failure. */
static inline int gyre_ddp_fail(struct gyre_ddp *ddp, int status)
{
    if (status < 0 && !ddp->failed)
        ddp->failed = status;
    return status;
}

/* -- arguments.c ------------------------------------------------------------------------------- */

/* Refuses wrong arguments, or copies them to *ddp, and the buffers to *buffer. Both lists are to be
 * freed, also after a failure. */
int gyre_ddp_take_arguments(struct gyre_ddp *ddp, const struct gyre_ddp_parameter *parameter,
                            int parameters, const struct gyre_ddp_options *options,
                            struct gyre_ddp_item **buffer);
void gyre_ddp_free_items(struct gyre_ddp_item *item, uint32_t items);

/* -- agree.c ----------------------------------------------------------------------------------- */

/* Are names, shapes, types and options the same on all ranks, and did none refuse its own
 * (`refused`)? Collective. The trouble is the same on all ranks. */
int gyre_ddp_agree(struct gyre_ddp *ddp, const struct gyre_ddp_item *buffer, uint32_t buffers,
                   int refused, struct gyre_trouble *trouble);

/* Do all ranks hold the same values? Collective. GYRE_CORRUPT names rank and parameter. */
int gyre_ddp_compare(struct gyre_ddp *ddp, struct gyre_trouble *trouble);

/* -- memory.c ---------------------------------------------------------------------------------- */

/* Makes the memory of ddp->cut; values are taken from the caller's. Frees it. */
int gyre_ddp_allocate(struct gyre_ddp *ddp);
void gyre_ddp_release(struct gyre_ddp *ddp);

/* Cuts again in the order in which rank 0's gradients became ready, and moves everything there.
 * Collective; between steps. */
int gyre_ddp_settle(struct gyre_ddp *ddp);

/* -- notes.c ----------------------------------------------------------------------------------- */

/* Elements of a type that hold the notes of all ranks; 0: its elements cannot. */
uint64_t gyre_ddp_note_elements(const struct gyre_ddp *ddp, enum gyre_type type);

/* Writes this rank's note to its place among them, zeros to all others. Then a sum over all ranks
 * is everybody's notes, which are read from it. */
void gyre_ddp_write_note(const struct gyre_ddp *ddp, void *to, enum gyre_type type);
void gyre_ddp_read_notes(struct gyre_ddp *ddp, const void *from, enum gyre_type type);

/* Gives every rank all notes by an operation of their own. Collective. */
int gyre_ddp_gather_notes(struct gyre_ddp *ddp);

static inline struct gyre_ddp_note *gyre_ddp_own_note(const struct gyre_ddp *ddp)
{
    return &ddp->note[ddp->rank];
}

/* -- wire.c ------------------------------------------------------------------------------------ */

extern const struct gyre_ddp_hook gyre_ddp_halves[]; /* by enum gyre_ddp_wire */

/* Does this bucket travel by the hook? Where its elements are then, and how many. */
bool gyre_ddp_is_encoded(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint8_t *gyre_ddp_wire_of(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint64_t gyre_ddp_wire_elements(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* Gradients to elements, with feedback; and what is this rank's of the reduced ones back. */
void gyre_ddp_encode(struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
void gyre_ddp_decode(struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* Memory for what ddp->cut has; its end; and what of an old one goes on in ddp->wire. */
int gyre_ddp_allocate_wire(struct gyre_ddp *ddp);
void gyre_ddp_release_wire(struct gyre_ddp *ddp, struct gyre_ddp_wire_room *wire);
void gyre_ddp_move_wire(struct gyre_ddp *ddp, const uint64_t *old_at,
                        const struct gyre_ddp_wire_room *old);

/* -- pieces.c ---------------------------------------------------------------------------------- */

/* What of a bucket is this rank's after the reduction: all, or its block. */
uint64_t gyre_ddp_own_first(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint64_t gyre_ddp_own_count(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
void *gyre_ddp_own_gradient(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* -- launch.c ---------------------------------------------------------------------------------- */

/* Starts every bucket that is complete and whose turn it is, but the last. */
int gyre_ddp_launch_complete(struct gyre_ddp *ddp);

/* Starts what is left, in order, and waits for all; everybody has the notes of all ranks then.
 * Collective. */
int gyre_ddp_reduce_rest(struct gyre_ddp *ddp);

/* Do notes bring what each rank's blocks add to the norm? */
bool gyre_ddp_norm_is_gathered(const struct gyre_ddp *ddp);

/* Gives every rank all blocks of a sharded engine's memory: gradients or values. Collective. */
int gyre_ddp_spread_blocks(struct gyre_ddp *ddp, uint8_t *memory);

/* -- numbers.c --------------------------------------------------------------------------------- */

bool gyre_ddp_finite(const void *data, uint64_t elements, enum gyre_type type);
void gyre_ddp_scale(void *data, uint64_t elements, enum gyre_type type, double factor);
double gyre_ddp_squares(const void *data, uint64_t elements, enum gyre_type type);

#endif
