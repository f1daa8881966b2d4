/* Declarations for the files behind reduce.h: the init function of each set of variants. */
#ifndef GYRE_COLLECTIVES_KERNELS_REDUCE_VARIANT_H
#define GYRE_COLLECTIVES_KERNELS_REDUCE_VARIANT_H

#include "collectives/kernels/reduce.h"

/* The table of a set's folds, one for each type and reduction. A fold is named f32_sum, i8_min.
 * Signed integers have the products and bit operations of unsigned integers: u8_and. */
#define GYRE_FOLDS                                                                                 \
    {                                                                                              \
        GYRE_TYPES(GYRE_FOLDS_OF)                                                                  \
    }
#define GYRE_FOLDS_OF(ID, type, kind, element, bits, ...)                                          \
    [GYRE_##ID] = {GYRE_REDUCTIONS(GYRE_FOLD_OF_##kind, type, bits)},

#define GYRE_FOLD_OF_FLOAT(OP, op, family, neutral, result, type, bits)                            \
    [GYRE_##OP] = GYRE_FLOAT_##family(type, op),
#define GYRE_FOLD_OF_SMALL_FLOAT     GYRE_FOLD_OF_FLOAT
#define GYRE_FLOAT_SUM(type, op)     type##_sum
#define GYRE_FLOAT_AVERAGE(type, op) type##_sum
#define GYRE_FLOAT_ORDER(type, op)   type##_##op
#define GYRE_FLOAT_PRODUCT(type, op) type##_##op
#define GYRE_FLOAT_BITS(type, op)    NULL

#define GYRE_FOLD_OF_SIGNED(OP, op, family, neutral, result, type, bits)                           \
    [GYRE_##OP] = GYRE_INTEGER_##family(type, op, bits),
#define GYRE_FOLD_OF_UNSIGNED                GYRE_FOLD_OF_SIGNED
#define GYRE_INTEGER_SUM(type, op, bits)     type##_sum
#define GYRE_INTEGER_AVERAGE(type, op, bits) type##_sum
#define GYRE_INTEGER_ORDER(type, op, bits)   type##_##op
#define GYRE_INTEGER_PRODUCT(type, op, bits) u##bits##_##op
#define GYRE_INTEGER_BITS(type, op, bits)    u##bits##_##op

bool gyre_reduce_scalar_supported(void);
void gyre_reduce_scalar_init(struct gyre_reduce_table *table);

/* The files of these functions are compiled with -m flags of their own: call init() only on a CPU
 * that was asked first. */
void gyre_reduce_sse2_init(struct gyre_reduce_table *table);
void gyre_reduce_avx2_init(struct gyre_reduce_table *table);
void gyre_reduce_avx512_init(struct gyre_reduce_table *table);
void gyre_reduce_avx512bf16_init(struct gyre_reduce_table *table);
void gyre_reduce_neon_init(struct gyre_reduce_table *table);
void gyre_reduce_sve_init(struct gyre_reduce_table *table);

#endif
