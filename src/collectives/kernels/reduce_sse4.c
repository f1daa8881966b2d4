/* 128-bit vectors: SSE4.2, which every x86-64 processor since 2009 has. Compiled with -msse4.2;
 * entered only after the CPU was asked. On newer CPUs it serves what is shorter than their vectors.
 * There is no instruction for binary16 here; its conversions use the adder and the multiplier:
 *
 *     wider     shifted into place, a binary16 is a binary32 that is 2^112 times too small,
 *               subnormal or not
 *     narrower  added to 0.5, whose steps are 2^-24, a small number is rounded to binary16's
 *               subnormal steps; larger ones are rounded as integers */
#define VECTOR_BYTES   16
#define STREAM_FENCE() __builtin_ia32_sfence()

#include "collectives/kernels/reduce_vector.inc"

#include <immintrin.h>

INLINE void stream_full(char *at, u8v vector)
{
    _mm_stream_si128((__m128i *)at, (__m128i)vector);
}

INLINE void stream_half(char *at, u16h half)
{
    _mm_stream_si64((long long *)at, (long long)half);
}

INLINE void stream_quarter(char *at, u8q quarter)
{
    _mm_stream_si32((int *)at, (int)quarter);
}

INLINE u16h widen_u8(u8q quarter)
{
    return (u16h)_mm_cvtsi128_si64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128((int)quarter)));
}

INLINE u8q narrow_u8(u32v lanes)
{
    __m128i packed = _mm_packus_epi32((__m128i)lanes, (__m128i)lanes);
    return (u8q)_mm_cvtsi128_si32(_mm_packus_epi16(packed, packed));
}

INLINE u32v widen_u16(u16h half)
{
    return (u32v)_mm_cvtepu16_epi32(_mm_cvtsi64_si128((long long)half));
}

INLINE u16h narrow_u16(u32v lanes)
{
    return (u16h)_mm_cvtsi128_si64(_mm_packus_epi32((__m128i)lanes, (__m128i)lanes));
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
    INLINE u8v name(u8v a, u8v b)                                                                  \
    {                                                                                              \
        return (u8v)intrinsic((__m128i)a, (__m128i)b);                                             \
    }

LANE_BY_LANE(least_i8, _mm_min_epi8)
LANE_BY_LANE(most_i8, _mm_max_epi8)
LANE_BY_LANE(least_i16, _mm_min_epi16)
LANE_BY_LANE(most_i16, _mm_max_epi16)
LANE_BY_LANE(least_i32, _mm_min_epi32)
LANE_BY_LANE(most_i32, _mm_max_epi32)
LANE_BY_LANE(least_u8, _mm_min_epu8)
LANE_BY_LANE(most_u8, _mm_max_epu8)
LANE_BY_LANE(least_u16, _mm_min_epu16)
LANE_BY_LANE(most_u16, _mm_max_epu16)
LANE_BY_LANE(least_u32, _mm_min_epu32)
LANE_BY_LANE(most_u32, _mm_max_epu32)

/* There is no least and most of 64-bit lanes: they are a comparison and a selection. */
INLINE u8v least_i64(u8v a, u8v b)
{
    __m128i a_larger = _mm_cmpgt_epi64((__m128i)a, (__m128i)b);
    return (u8v)_mm_blendv_epi8((__m128i)a, (__m128i)b, a_larger);
}

INLINE u8v most_i64(u8v a, u8v b)
{
    __m128i a_larger = _mm_cmpgt_epi64((__m128i)a, (__m128i)b);
    return (u8v)_mm_blendv_epi8((__m128i)b, (__m128i)a, a_larger);
}

/* Unsigned lanes compare as signed ones whose sign bits are turned. */
INLINE u8v turn_u64(u8v lanes)
{
    return (u8v)((u64v)lanes ^ UINT64_C(1) << 63);
}

INLINE u8v least_u64(u8v a, u8v b)
{
    return turn_u64(least_i64(turn_u64(a), turn_u64(b)));
}

INLINE u8v most_u64(u8v a, u8v b)
{
    return turn_u64(most_i64(turn_u64(a), turn_u64(b)));
}

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_sse4_init(struct gyre_reduce_table *table)
{
    install(table, "sse4", folds);
}
