/* 24 of 32 registers hold sums. Compiled with -mavx512f. Tested by tests/kernel/dense.c. */
#include <immintrin.h>

#define WIDTH          16
#define ROWS           12
#define VECTORS        2
#define VARIANT        "avx512"
#define TILE           gyre_tile_avx512
#define SPREAD(x)      ((vector)_mm512_set1_ps(x))
#define FUSED(a, b, c) ((vector)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "model/kernels/dense_tile.inc"
