/* 256-bit vectors: AVX2 and F16C. Compiled with -mavx2 -mf16c; entered only after the CPU was
 * asked. AVX2 has no least and most of 64-bit lanes: they are a comparison and a selection. */
#define VECTOR_BYTES 32

#include "collectives/kernels/reduce_vector.inc"

#include <immintrin.h>

INLINE void stream_full(char *at, u8v vector)
{
    _mm256_stream_si256((__m256i *)at, (__m256i)vector);
}

INLINE void stream_half(char *at, u16h half)
{
    _mm_stream_si128((__m128i *)at, (__m128i)half);
}

INLINE f32v widen_f16(u16h half)
{
    return (f32v)_mm256_cvtph_ps((__m128i)half);
}

INLINE u16h narrow_f16(f32v value)
{
    return (u16h)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
}

INLINE u32v widen_u16(u16h half)
{
    return (u32v)_mm256_cvtepu16_epi32((__m128i)half);
}

/* The packing works in each 128-bit half, so its result lies in the first and third quarter. */
INLINE u16h narrow_u16(u32v lanes)
{
    __m256i packed = _mm256_packus_epi32((__m256i)lanes, (__m256i)lanes);
    return (u16h)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

#define LANE_BY_LANE(name, intrinsic)                                                              \
    INLINE u8v name(u8v a, u8v b)                                                                  \
    {                                                                                              \
        return (u8v)intrinsic((__m256i)a, (__m256i)b);                                             \
    }

LANE_BY_LANE(least_i16, _mm256_min_epi16)
LANE_BY_LANE(most_i16, _mm256_max_epi16)
LANE_BY_LANE(least_i32, _mm256_min_epi32)
LANE_BY_LANE(most_i32, _mm256_max_epi32)
LANE_BY_LANE(least_u8, _mm256_min_epu8)
LANE_BY_LANE(most_u8, _mm256_max_epu8)

INLINE u8v least_i64(u8v a, u8v b)
{
    __m256i a_larger = _mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
    return (u8v)_mm256_blendv_epi8((__m256i)a, (__m256i)b, a_larger);
}

INLINE u8v most_i64(u8v a, u8v b)
{
    __m256i a_larger = _mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
    return (u8v)_mm256_blendv_epi8((__m256i)b, (__m256i)a, a_larger);
}

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_avx2_init(struct gyre_reduce_table *table)
{
    install(table, "avx2");
}
