/* What the files behind reduce.h share: each set of variants announces itself here. */
#ifndef GYRE_COLLECTIVES_KERNELS_REDUCE_VARIANT_H
#define GYRE_COLLECTIVES_KERNELS_REDUCE_VARIANT_H

#include "collectives/kernels/reduce.h"

/* A table of folds that are named as this says: f32_sum, i8_min, and_16. A set has all of them. */
#define GYRE_FOLDS_OF_FLOAT(type)                                                                  \
    {                                                                                              \
        type##_sum, type##_sum, type##_min, type##_max, type##_prod                                \
    }
#define GYRE_FOLDS_OF_INTEGER(type, bits)                                                          \
    {                                                                                              \
        type##_sum, type##_sum, type##_min, type##_max, prod_##bits, and_##bits, or_##bits,        \
            xor_##bits                                                                             \
    }
#define GYRE_FOLDS                                                                                 \
    {                                                                                              \
        [GYRE_F32] = GYRE_FOLDS_OF_FLOAT(f32), [GYRE_F64] = GYRE_FOLDS_OF_FLOAT(f64),              \
        [GYRE_F16] = GYRE_FOLDS_OF_FLOAT(f16), [GYRE_BF16] = GYRE_FOLDS_OF_FLOAT(bf16),            \
        [GYRE_F8E4M3] = GYRE_FOLDS_OF_FLOAT(f8e4m3), [GYRE_F8E5M2] = GYRE_FOLDS_OF_FLOAT(f8e5m2),  \
        [GYRE_I8] = GYRE_FOLDS_OF_INTEGER(i8, 8), [GYRE_U8] = GYRE_FOLDS_OF_INTEGER(u8, 8),        \
        [GYRE_I16] = GYRE_FOLDS_OF_INTEGER(i16, 16), [GYRE_U16] = GYRE_FOLDS_OF_INTEGER(u16, 16),  \
        [GYRE_I32] = GYRE_FOLDS_OF_INTEGER(i32, 32), [GYRE_U32] = GYRE_FOLDS_OF_INTEGER(u32, 32),  \
        [GYRE_I64] = GYRE_FOLDS_OF_INTEGER(i64, 64), [GYRE_U64] = GYRE_FOLDS_OF_INTEGER(u64, 64),  \
    }

bool gyre_reduce_scalar_supported(void);
void gyre_reduce_scalar_init(struct gyre_reduce_table *table);

/* The files of these are compiled with their own -m flags: call init() only where the CPU was asked
 * first. */
void gyre_reduce_sse2_init(struct gyre_reduce_table *table);
void gyre_reduce_avx2_init(struct gyre_reduce_table *table);
void gyre_reduce_avx512_init(struct gyre_reduce_table *table);
void gyre_reduce_avx512bf16_init(struct gyre_reduce_table *table);
void gyre_reduce_neon_init(struct gyre_reduce_table *table);
void gyre_reduce_sve_init(struct gyre_reduce_table *table);

#endif
