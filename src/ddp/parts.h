/* The engine's inside, for the files of this room only. Its outside is gyre/ddp.h.
 *
 *   create ─▶ agree.c (all ranks alike?) ─▶ cut.c (buckets) ─▶ values of rank 0 to all
 *   begin ─▶ ready … ready ─▶ wait                                             step.c
 *              │ launch: wire.c (shorter?) ─▶ all_reduce, or reduce_scatter where sharded
 */
#ifndef GYRE_DDP_PARTS_H
#define GYRE_DDP_PARTS_H

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

/* What one rank adds to the numbers that are summed over all, as doubles: counts stay exact. */
enum gyre_ddp_slot {
    GYRE_SLOT_SAMPLES,
    GYRE_SLOT_ACTIVE, /* ranks with samples */
    GYRE_SLOT_STOP,
    GYRE_SLOT_SKIP,
    GYRE_SLOT_NONFINITE,
    GYRE_SLOT_SEEN,   /* rank 0's gradients, whose order counts */
    GYRE_SLOT_UNUSED, /* parameters that a rank with samples left without a gradient */
    GYRE_SLOT_SUM,
    GYRE_SLOTS = GYRE_SLOT_SUM + GYRE_DDP_SUMS
};

/* How gradients travel in halves of a word, and what those could not hold. */
struct gyre_ddp_wire_room {
    uint16_t *half;  /* gyre_alloc; one per element of the memory */
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
    struct gyre_ddp_wire_room wire;

    /* of the step */
    bool open, adds, no_sync;
    bool clips; /* it may be clipped: ended, and not clipped yet */
    uint64_t samples;
    double slot[GYRE_SLOTS];
    int bad_item;      /* the first with a NaN, -1: none; -2 - k: sum k */
    int unused_item;   /* the first without a gradient; -1: none */
    bool *ready;       /* by item, in this part */
    bool *written;     /* by item, in any part of the step */
    uint32_t *missing; /* by bucket: items not ready */
    uint32_t launched;
    struct gyre_work **work; /* by bucket */

    bool settled; /* cut for good */
    uint32_t *seen, seens;
    bool *named; /* by item: told to be unused */
    int failed;  /* status of every later call */
    uint64_t steps;
    struct gyre_ddp_result result;
};

/* -- agree.c ----------------------------------------------------------------------------------- */

/* Are names, shapes, types and options the same on all ranks, and did none refuse its own
 * (`refused`)? Collective. The trouble is the same on all ranks. */
int gyre_ddp_agree(struct gyre_ddp *ddp, const struct gyre_ddp_item *buffer, uint32_t buffers,
                   int refused, struct gyre_trouble *trouble);

/* Do all ranks hold the same values? Collective. GYRE_CORRUPT names rank and parameter. */
int gyre_ddp_compare(struct gyre_ddp *ddp, struct gyre_trouble *trouble);

/* Which rank is the lowest that had something, and what? `mine` is -1 or a number of its; both come
 * back -1 if nobody had. Collective. */
int gyre_ddp_find(struct gyre_ddp *ddp, int mine, int *rank, int *what);

/* -- memory.c ---------------------------------------------------------------------------------- */

/* Makes the memory of ddp->cut; values are taken from the caller's. Frees it. */
int gyre_ddp_allocate(struct gyre_ddp *ddp);
void gyre_ddp_release(struct gyre_ddp *ddp);

/* Cuts again in the order in which rank 0's gradients became ready, and moves everything there.
 * Collective; between steps. */
int gyre_ddp_settle(struct gyre_ddp *ddp);

/* -- pieces.c ---------------------------------------------------------------------------------- */

/* What of a bucket is this rank's after the reduction: all, or its block. */
uint64_t gyre_ddp_own_first(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
uint64_t gyre_ddp_own_count(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);
void *gyre_ddp_own_gradient(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket);

/* -- step.c ------------------------------------------------------------------------------------ */

/* The status, which every later call returns too if it is a failure. */
int gyre_ddp_fail(struct gyre_ddp *ddp, int status);

/* Gives every rank all blocks of a sharded engine's memory: gradients or values. Collective. */
int gyre_ddp_spread_blocks(struct gyre_ddp *ddp, uint8_t *memory);

/* -- numbers.c --------------------------------------------------------------------------------- */

bool gyre_ddp_finite(const void *data, uint64_t elements, enum gyre_type type);
void gyre_ddp_scale(void *data, uint64_t elements, enum gyre_type type, double factor);
double gyre_ddp_squares(const void *data, uint64_t elements, enum gyre_type type);

/* half = rounded(scale × (data + feedback)); feedback, if any, keeps what that lost. And back. */
void gyre_ddp_encode(const float *data, float *feedback, uint16_t *half, uint64_t elements,
                     enum gyre_ddp_wire wire, float scale);
void gyre_ddp_decode(const uint16_t *half, float *data, uint64_t elements, enum gyre_ddp_wire wire,
                     float scale);

#endif
