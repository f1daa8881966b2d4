/* 12 of 16 registers hold sums. Compiled with -mavx2 -mfma. Tested by tests/kernel/dense.c. */
#include <immintrin.h>

#define WIDTH          8
#define ROWS           6
#define VECTORS        2
#define VARIANT        "avx2"
#define TILE           gyre_tile_avx2
#define SPREAD(x)      ((vector)_mm256_set1_ps(x))
#define FUSED(a, b, c) ((vector)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "model/kernels/dense_tile.inc"
