/* 128-bit vectors: SSE2, which every x86-64 processor has. On newer CPUs SSE2 serves results that
 * are shorter than their vectors. SSE2 has no instruction for binary16; conversions use the adder
 * and the multiplier:
 *
 *     wider     shifted into place, a binary16 is a binary32 that is 2^112 times too small,
 *               subnormal or not
 *     narrower  added to 0.5, whose steps are 2^-24, a small number is rounded to binary16's
 *               subnormal steps; larger ones are rounded as integers
 *
 * SSE2 has minimum and maximum of i16 and u8; of other lanes a comparison and a selection do it.
 *
 * Tested by tests/kernel/reduce.c. */
#define VECTOR_BYTES   16
#define STREAM_FENCE() __builtin_ia32_sfence()

#include "collectives/kernels/reduce_vector.inc"

#include <emmintrin.h>

INLINE void stream_full(char *at, u8v v_call)
{
    _mm_stream_si128((__m128i *)at, (__m128i)v_call);
}

INLINE void stream_16(char *at, u16h half)
{
    _mm_stream_si64((long long *)at, (long long)half);
}

INLINE void stream_8(char *at, u8q quarter)
{
    _mm_stream_si32((int *)at, (int)quarter);
}

INLINE u16h widen_u8(u8q quarter)
{
    return (u16h)_mm_cvtsi128_si64(
        _mm_unpacklo_epi8(_mm_cvtsi32_si128((int)quarter), _mm_setzero_si128()));
}

INLINE u32v widen_u16(u16h half)
{
    return (u32v)_mm_unpacklo_epi16(_mm_cvtsi64_si128((long long)half), _mm_setzero_si128());
}

/* Moves the lower halves of the lanes to the lower half of the vector. */
INLINE __m128i lower_halves(u32v lanes)
{
    __m128i packed = _mm_shufflelo_epi16((__m128i)lanes, 0x08);
    return _mm_shuffle_epi32(_mm_shufflehi_epi16(packed, 0x08), 0x08);
}

INLINE u16h narrow_u16(u32v lanes)
{
    return (u16h)_mm_cvtsi128_si64(lower_halves(lanes));
}

INLINE u8q narrow_u8(u32v lanes)
{
    __m128i half = lower_halves(lanes);
    return (u8q)_mm_cvtsi128_si32(_mm_packus_epi16(half, half));
}

INLINE f32v widen_f16(u16h half)
{
    u32v bits = widen_u16(half), size = (bits & 0x7fff) << 13;
    u32v infinite = (u32v)((i32v)size >= 0x7c00 << 13) & 0x7f800000;
    u32v scaled = (u32v)((f32v)size * 0x1p112F);
    return (f32v)(scaled | infinite | (bits & 0x8000) << 16);
}

INLINE u16h narrow_f16(f32v value)
{
    u32v bits = (u32v)value, size = bits & 0x7fffffff;
    u32v normal = (size - (112U << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    u32v small = (u32v)((f32v)size + 0.5F) - (126U << 23);
    u32v half = choose((i32v)size < 0x38800000, small, normal);
    half = choose((i32v)size >= 0x477ff000, all(0x7c00), half);
    half = choose((i32v)size > 0x7f800000, all(0x7e00), half);
    return narrow_u16(half | (bits >> 16 & 0x8000));
}

#define LANE_BY_LANE(name, intrinsic)                                                              \
    INLINE u8v combine_##name(u8v a, u8v b)                                                        \
    {                                                                                              \
        return (u8v)intrinsic((__m128i)a, (__m128i)b);                                             \
    }

LANE_BY_LANE(min_i16, _mm_min_epi16)
LANE_BY_LANE(max_i16, _mm_max_epi16)
LANE_BY_LANE(min_u8, _mm_min_epu8)
LANE_BY_LANE(max_u8, _mm_max_epu8)

#define COMPARED(lane, v_call)                                                                     \
    INLINE u8v combine_min_##lane(u8v a, u8v b)                                                    \
    {                                                                                              \
        u8v a_larger = (u8v)((v_call)a > (v_call)b);                                               \
        return (b & a_larger) | (a & ~a_larger);                                                   \
    }                                                                                              \
    INLINE u8v combine_max_##lane(u8v a, u8v b)                                                    \
    {                                                                                              \
        u8v a_larger = (u8v)((v_call)a > (v_call)b);                                               \
        return (a & a_larger) | (b & ~a_larger);                                                   \
    }

COMPARED(i8, i8v)
COMPARED(u16, u16v)
COMPARED(i32, i32v)
COMPARED(u32, u32v)
COMPARED(i64, i64v)
COMPARED(u64, u64v)

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_sse2_init(struct gyre_reduce_table *table)
{
    install(table, "sse2", folds);
}
