/* 128-bit vectors: NEON, which every AArch64 processor has. Streaming stores are ordinary ones,
 * because NEON has no instruction that stores one vector around the cache.
 *
 * Tested by tests/kernel/reduce.c. */
#define VECTOR_BYTES 16
#define STREAM_FENCE()

#include "collectives/kernels/reduce_vector.inc"

#include <arm_neon.h>

#define stream_full store_full
#define stream_16   store_16
#define stream_8    store_8

INLINE f32v widen_f16(u16h half)
{
    return (f32v)vcvt_f32_f16((float16x4_t)half);
}

INLINE u16h narrow_f16(f32v value)
{
    return (u16h)vcvt_f16_f32((float32x4_t)value);
}

INLINE u32v widen_u16(u16h half)
{
    return (u32v)vmovl_u16((uint16x4_t)half);
}

INLINE u16h narrow_u16(u32v lanes)
{
    return (u16h)vmovn_u32((uint32x4_t)lanes);
}

INLINE u16h widen_u8(u8q quarter)
{
    return (u16h)vget_low_u16(vmovl_u8(vcreate_u8((uint32_t)quarter)));
}

INLINE u8q narrow_u8(u32v lanes)
{
    uint16x4_t half = vmovn_u32((uint32x4_t)lanes);
    uint8x8_t bytes = vmovn_u16(vcombine_u16(half, half));
    return (u8q)vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
}

#define LANE_BY_LANE(lane, suffix, v_call)                                                         \
    INLINE u8v combine_min_##lane(u8v a, u8v b)                                                    \
    {                                                                                              \
        return (u8v)vminq_##suffix((v_call)a, (v_call)b);                                          \
    }                                                                                              \
    INLINE u8v combine_max_##lane(u8v a, u8v b)                                                    \
    {                                                                                              \
        return (u8v)vmaxq_##suffix((v_call)a, (v_call)b);                                          \
    }

LANE_BY_LANE(i8, s8, int8x16_t)
LANE_BY_LANE(u8, u8, uint8x16_t)
LANE_BY_LANE(i16, s16, int16x8_t)
LANE_BY_LANE(u16, u16, uint16x8_t)
LANE_BY_LANE(i32, s32, int32x4_t)
LANE_BY_LANE(u32, u32, uint32x4_t)

/* NEON has no minimum of 64-bit lanes: a comparison and a selection take its place. */
#define COMPARED(lane, suffix, v_call)                                                             \
    INLINE u8v combine_min_##lane(u8v a, u8v b)                                                    \
    {                                                                                              \
        return (u8v)vbslq_u8(vreinterpretq_u8_u64(vcgtq_##suffix((v_call)a, (v_call)b)),           \
                             (uint8x16_t)b, (uint8x16_t)a);                                        \
    }                                                                                              \
    INLINE u8v combine_max_##lane(u8v a, u8v b)                                                    \
    {                                                                                              \
        return (u8v)vbslq_u8(vreinterpretq_u8_u64(vcgtq_##suffix((v_call)a, (v_call)b)),           \
                             (uint8x16_t)a, (uint8x16_t)b);                                        \
    }

COMPARED(i64, s64, int64x2_t)
COMPARED(u64, u64, uint64x2_t)

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_neon_init(struct gyre_reduce_table *table)
{
    install(table, "neon", folds);
}
