/* Sums and products of bfloat16 where the CPU has an instruction that rounds to it. VCVTNEPS2BF16
 * rounds to nearest even whatever the mode, but takes subnormal numbers for zero. Where a lane of a
 * vector is subnormal, which is seldom, integers round the vector as in every other set.
 *
 * Tested by tests/kernel/reduce.c. */
#include "collectives/kernels/reduce_avx512.inc"
#include "collectives/kernels/reduce_words.inc"

#define SUBNORMAL 0x20 /* of VFPCLASSPS */

INLINE u16h narrow_at_once(f32v value)
{
    if (__builtin_expect(_mm512_fpclass_ps_mask((__m512)value, SUBNORMAL), 0))
        return narrow_bf16(value);
    return (u16h)_mm512_cvtneps_pbh((__m512)value);
}

INLINE void store_at_once(char *at, u8v v_call)
{
    store_16(at, narrow_at_once((f32v)v_call));
}

INLINE void stream_at_once(char *at, u8v v_call)
{
    stream_16(at, narrow_at_once((f32v)v_call));
}

FOLD(bf16_sum, GYRE_BF16, GYRE_SUM, 1, 2, VECTOR_BYTES / 2, load_bf16, combine_sum_f32, divide_f32,
     store_at_once, stream_at_once)
FOLD(bf16_prod, GYRE_BF16, GYRE_PROD, 1, 2, VECTOR_BYTES / 2, load_bf16, combine_prod_f32,
     no_finish, store_at_once, stream_at_once)

static const gyre_fold folds[GYRE_TYPE_COUNT][GYRE_OP_COUNT] = {
    [GYRE_BF16] = {[GYRE_SUM] = bf16_sum, [GYRE_AVG] = bf16_sum, [GYRE_PROD] = bf16_prod},
};

void gyre_reduce_avx512bf16_init(struct gyre_reduce_table *table)
{
    install(table, "avx512bf16", folds);
}
