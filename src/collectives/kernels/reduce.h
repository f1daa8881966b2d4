/* Reduction kernels: one table of function pointers per device kind. The table is filled with the
 * scalar reference and then overwritten, entry by entry, by faster variants that this CPU can run
 * (dav1d's pattern).
 *
 * Every variant is bit-identical to the reference (NaN payloads aside), at any count, alignment and
 * number of sources and destinations. No result depends on the caller's rounding or flush-to-zero
 * modes: kernels whose result could depend on the modes run in the default mode and restore the
 * caller's. tests/kernel/reduce.c checks every variant against the reference and times the same
 * calls.
 *
 *   f16, bf16     accumulate in f32, rounded once to nearest even at the end; f8e4m3 and f8e5m2
 *                 too. Too large for f8e4m3 is NaN, as PyTorch converts: 464 and less become 448
 *   integers      wrap (computed unsigned)
 *   min, max      NaN if any source is NaN; -0 < +0
 *   sum, avg      the same folds: the sum, divided by the task's divisor unless that is 0, in the
 *                 accumulator's type; integers: the wrapped sum, truncated toward zero
 *   and, or, xor  of integers; there is no fold of floats (NULL)
 *
 * Only sum and avg use a divisor. */
#ifndef GYRE_COLLECTIVES_KERNELS_REDUCE_H
#define GYRE_COLLECTIVES_KERNELS_REDUCE_H

#include "base/types.h"
#include "device/device.h"

struct gyre_reduce_table {
    /* The name of each entry's set, for the bench. */
    const char *variant[GYRE_TYPE_COUNT][GYRE_OP_COUNT];
    gyre_fold fold[GYRE_TYPE_COUNT][GYRE_OP_COUNT];
};

/* One set of variants. init() overwrites the table's entries that the set has; supported() says
 * whether this CPU can run the set. */
struct gyre_reduce_variant {
    const char *name;
    bool (*supported)(void);
    void (*init)(struct gyre_reduce_table *table);
    uint32_t least_bytes; /* results shorter than this are left to the set before */
};

/* The fold that multiplies each source by a number of its own and sums in the same pass:
 * destination[d][i] = source[0][i] * number[0] + source[1][i] * number[1] + …. Product and sum are
 * in the accumulator's type and rounded once; integers wrap. `context` points to the numbers,
 * elements of the type, one for each source. No divisor. NULL for an unknown type. Any thread. */
gyre_fold gyre_scale(enum gyre_type type);

/* The fold whose destinations have another type than its sources: the sum of the sources, divided
 * by the divisor unless the divisor is 0, in f32 and rounded once. No destination is a source.
 * Converts from f32 to bf16 or f16 and back, for copies that are narrower on the wire than their
 * masters; NULL for other types. Any thread. */
gyre_fold gyre_cast(enum gyre_type from, enum gyre_type to);

/* A reduction that the user wrote, for one type. */
struct gyre_user_op {
    gyre_user_fold fold;
    void *context;
    enum gyre_type type;
};

/* The fold of host memory that calls the user's function from left to right. `context` is a struct
 * gyre_user_op. No divisor. */
void gyre_fold_by_user(const struct gyre_fold_task *task, void *native_queue);

/* From slowest ("scalar", complete) to fastest; ends with a NULL name. */
extern const struct gyre_reduce_variant gyre_reduce_variants[];

/* The best table for a memory kind: static storage, built on first use.
 * GYRE_KERNELS=scalar|sse2|avx2|avx512|avx512bf16, on Arm scalar|neon|sve, limits the choice. NULL
 * where the build has no kernels for the kind. Any thread. */
const struct gyre_reduce_table *gyre_reduce_table(enum gyre_memory_kind kind);

/* GYRE_INVALID where GYRE_KERNELS names no instruction set of this architecture. */
int gyre_reduce_check(struct gyre_trouble *trouble);

/* The table that computes results of `bytes` in the least time. The results are those of
 * gyre_reduce_table(). */
const struct gyre_reduce_table *gyre_reduce_table_for(enum gyre_memory_kind kind, uint64_t bytes);

#endif
