/* 256-bit vectors: AVX2 and F16C. Compiled with -mavx2 -mf16c; entered only after the CPU was
 * asked. AVX2 has no minimum of 64-bit lanes: a comparison and a selection take its place.
 *
 * Tested by tests/kernel/reduce.c. */
#define VECTOR_BYTES   32
#define STREAM_FENCE() __builtin_ia32_sfence()

#include "collectives/kernels/reduce_vector.inc"

#include <immintrin.h>

INLINE void stream_full(char *at, u8v v_call)
{
    _mm256_stream_si256((__m256i *)at, (__m256i)v_call);
}

INLINE void stream_16(char *at, u16h half)
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

INLINE void stream_8(char *at, u8q quarter)
{
    _mm_stream_si64((long long *)at, (long long)quarter);
}

INLINE u16h widen_u8(u8q quarter)
{
    return (u16h)_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)quarter));
}

INLINE u8q narrow_u8(u32v lanes)
{
    __m256i packed = _mm256_packus_epi32((__m256i)lanes, (__m256i)lanes);
    packed = _mm256_packus_epi16(packed, packed);
    __m128i low = _mm256_castsi256_si128(packed), high = _mm256_extracti128_si256(packed, 1);
    return (u8q)_mm_cvtsi128_si64(_mm_unpacklo_epi32(low, high));
}

INLINE u32v widen_u16(u16h half)
{
    return (u32v)_mm256_cvtepu16_epi32((__m128i)half);
}

/* Packs in each 128-bit half. The result lies in the first and third quarter. */
INLINE u16h narrow_u16(u32v lanes)
{
    __m256i packed = _mm256_packus_epi32((__m256i)lanes, (__m256i)lanes);
    return (u16h)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

#define LANE_BY_LANE(name, intrinsic)                                                              \
    INLINE u8v combine_##name(u8v a, u8v b)                                                        \
    {                                                                                              \
        return (u8v)intrinsic((__m256i)a, (__m256i)b);                                             \
    }

LANE_BY_LANE(min_i8, _mm256_min_epi8)
LANE_BY_LANE(max_i8, _mm256_max_epi8)
LANE_BY_LANE(min_i16, _mm256_min_epi16)
LANE_BY_LANE(max_i16, _mm256_max_epi16)
LANE_BY_LANE(min_i32, _mm256_min_epi32)
LANE_BY_LANE(max_i32, _mm256_max_epi32)
LANE_BY_LANE(min_u8, _mm256_min_epu8)
LANE_BY_LANE(max_u8, _mm256_max_epu8)
LANE_BY_LANE(min_u16, _mm256_min_epu16)
LANE_BY_LANE(max_u16, _mm256_max_epu16)
LANE_BY_LANE(min_u32, _mm256_min_epu32)
LANE_BY_LANE(max_u32, _mm256_max_epu32)

INLINE u8v combine_min_i64(u8v a, u8v b)
{
    __m256i a_larger = _mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
    return (u8v)_mm256_blendv_epi8((__m256i)a, (__m256i)b, a_larger);
}

INLINE u8v combine_max_i64(u8v a, u8v b)
{
    __m256i a_larger = _mm256_cmpgt_epi64((__m256i)a, (__m256i)b);
    return (u8v)_mm256_blendv_epi8((__m256i)b, (__m256i)a, a_larger);
}

/* Turns the sign bits of unsigned lanes, which then compare as signed lanes. */
INLINE u8v turn_u64(u8v lanes)
{
    return (u8v)((u64v)lanes ^ UINT64_C(1) << 63);
}

INLINE u8v combine_min_u64(u8v a, u8v b)
{
    return turn_u64(combine_min_i64(turn_u64(a), turn_u64(b)));
}

INLINE u8v combine_max_u64(u8v a, u8v b)
{
    return turn_u64(combine_max_i64(turn_u64(a), turn_u64(b)));
}

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_avx2_init(struct gyre_reduce_table *table)
{
    install(table, "avx2", folds);
}
