/* What the files behind dense.h share. */
#ifndef GYRE_MODEL_KERNELS_DENSE_INSIDE_H
#define GYRE_MODEL_KERNELS_DENSE_INSIDE_H

#include "model/kernels/dense.h"

#include <stdbool.h>

/* -- the own hand ------------------------------------------------------------------------------ */

#define GYRE_TILE_ROWS_MOST    12
#define GYRE_TILE_COLUMNS_MOST 32

/* A tile of C: rows x columns of one instruction set, kept in registers while k goes by.
 *
 *     a    k groups of `rows` floats: a column of A's panel after the other
 *     b    k groups of `columns` floats: a row of B's panel after the other
 *     c    c = alpha * a * b + beta * c, all rows and columns of the tile; ldc apart */
struct gyre_tile {
    const char *name;
    size_t rows, columns;
    void (*multiply)(size_t k, const float *a, const float *b, float alpha, float beta, float *c,
                     size_t ldc);
};

extern const struct gyre_tile gyre_tile_scalar, gyre_tile_avx2, gyre_tile_avx512;

/* The best tile of this CPU that GYRE_KERNELS allows, and all that this CPU has, for tests: NULL
 * after the last. */
const struct gyre_tile *gyre_tile_best(void);
const struct gyre_tile *gyre_tile_narrow(void); /* for products of no more columns than it has */
const struct gyre_tile *gyre_tile_number(int i);

size_t gyre_dense_own_floats(void); /* workspace, in floats; aligned to 64 bytes */

/* Each element of C is the sum over k in order, cut in blocks of 256, whatever its place and the
 * size of the product. Tiles with fused multiply-adds (avx2, avx512) have the same bits. */
void gyre_dense_own(const struct gyre_tile *tile, float *workspace,
                    const struct gyre_product *product);

/* -- the hired one ----------------------------------------------------------------------------- */

/* True if OpenBLAS is loaded; looks for it on first use. Any thread. */
bool gyre_dense_blas_found(void);
const char *gyre_dense_blas_core(void); /* the CPU that it takes this one for */
void gyre_dense_blas(const struct gyre_product *product);

/* Is the product large enough for the call to pay, to an OpenBLAS that is good at small ones or
 * not? And to the one found here. */
bool gyre_dense_is_for_blas(const struct gyre_product *product, bool small);
bool gyre_dense_blas_takes_small(void);
bool gyre_dense_blas_pays(const struct gyre_product *product);

#endif
