/* 512-bit vectors. Compiled with -mavx512f and its companions; a mask stands for a short vector.
 * Tested by tests/kernel/ops.c. */
#include "model/kernels/ops_sets.h"

#include <immintrin.h>

#define VARIANT       "avx512"
#define GYRE_OPS      gyre_ops_avx512
#define OWN_ROUND_F16 1

static void round_f16(float *y, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = (__mmask16)(count - i < 16 ? (1U << (count - i)) - 1 : 0xffffU);
        __m512 values = _mm512_maskz_loadu_ps(mask, x + i);
        __m256i stored = _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
        _mm512_mask_storeu_ps(y + i, mask, _mm512_cvtph_ps(stored));
    }
}

#include "model/kernels/ops_loops.inc"
