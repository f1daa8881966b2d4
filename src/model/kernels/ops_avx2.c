/* 256-bit vectors. Compiled with -mavx2 -mf16c. Tested by tests/kernel/ops.c. */
#include "model/kernels/ops_sets.h"

#include <immintrin.h>
#include <string.h>

#define VARIANT       "avx2"
#define GYRE_OPS      gyre_ops_avx2
#define OWN_ROUND_F16 1

static inline __m256 as_if_stored(__m256 x)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static void round_f16(float *y, const float *x, size_t count)
{
    float rest[8] = {0};
    size_t whole = count - count % 8;
    for (size_t i = 0; i < whole; i += 8)
        _mm256_storeu_ps(y + i, as_if_stored(_mm256_loadu_ps(x + i)));
    if (whole == count)
        return;
    memcpy(rest, x + whole, (count - whole) * sizeof *x);
    _mm256_storeu_ps(rest, as_if_stored(_mm256_loadu_ps(rest)));
    memcpy(y + whole, rest, (count - whole) * sizeof *y);
}

#include "model/kernels/ops_loops.inc"
