/* 512-bit vectors: AVX-512 F, BW, DQ and VL. Compiled with those flags; entered only after the CPU
 * was asked. */
#define VECTOR_BYTES   64
#define STREAM_FENCE() __builtin_ia32_sfence()

#include "collectives/kernels/reduce_vector.inc"

#include <immintrin.h>

INLINE void stream_full(char *at, u8v vector)
{
    _mm512_stream_si512((__m512i *)at, (__m512i)vector);
}

INLINE void stream_half(char *at, u16h half)
{
    _mm256_stream_si256((__m256i *)at, (__m256i)half);
}

INLINE f32v widen_f16(u16h half)
{
    return (f32v)_mm512_cvtph_ps((__m256i)half);
}

INLINE u16h narrow_f16(f32v value)
{
    return (u16h)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT);
}

INLINE void stream_quarter(char *at, u8q quarter)
{
    _mm_stream_si128((__m128i *)at, (__m128i)quarter);
}

INLINE u16h widen_u8(u8q quarter)
{
    return (u16h)_mm256_cvtepu8_epi16((__m128i)quarter);
}

INLINE u8q narrow_u8(u32v lanes)
{
    return (u8q)_mm512_cvtepi32_epi8((__m512i)lanes);
}

INLINE u32v widen_u16(u16h half)
{
    return (u32v)_mm512_cvtepu16_epi32((__m256i)half);
}

INLINE u16h narrow_u16(u32v lanes)
{
    return (u16h)_mm512_cvtepi32_epi16((__m512i)lanes);
}

#define LANE_BY_LANE(name, intrinsic)                                                              \
    INLINE u8v name(u8v a, u8v b)                                                                  \
    {                                                                                              \
        return (u8v)intrinsic((__m512i)a, (__m512i)b);                                             \
    }

LANE_BY_LANE(least_i8, _mm512_min_epi8)
LANE_BY_LANE(most_i8, _mm512_max_epi8)
LANE_BY_LANE(least_i16, _mm512_min_epi16)
LANE_BY_LANE(most_i16, _mm512_max_epi16)
LANE_BY_LANE(least_i32, _mm512_min_epi32)
LANE_BY_LANE(most_i32, _mm512_max_epi32)
LANE_BY_LANE(least_i64, _mm512_min_epi64)
LANE_BY_LANE(most_i64, _mm512_max_epi64)
LANE_BY_LANE(least_u8, _mm512_min_epu8)
LANE_BY_LANE(most_u8, _mm512_max_epu8)
LANE_BY_LANE(least_u16, _mm512_min_epu16)
LANE_BY_LANE(most_u16, _mm512_max_epu16)
LANE_BY_LANE(least_u32, _mm512_min_epu32)
LANE_BY_LANE(most_u32, _mm512_max_epu32)
LANE_BY_LANE(least_u64, _mm512_min_epu64)
LANE_BY_LANE(most_u64, _mm512_max_epu64)

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_avx512_init(struct gyre_reduce_table *table)
{
    install(table, "avx512", folds);
}
