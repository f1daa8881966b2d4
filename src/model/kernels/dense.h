/* Products of matrices, row-major, in the three ways that layers need:
 *
 *     NN   C[m][n] = alpha * A[m][k] * B[k][n]    + beta * C     gradient of a linear layer's input
 *     NT   C[m][n] = alpha * A[m][k] * B[n][k]^T  + beta * C     its output
 *     TN   C[m][n] = alpha * A[k][m]^T * B[k][n]  + beta * C     gradient of its weight
 *
 * Two implementations do the work. dense_own.c is always there. Large products go to OpenBLAS,
 * which knows more CPUs, if the machine has it (dense_blas.c); small ones go there on CPUs where
 * OpenBLAS is good at them. The choice depends on the machine and the sizes only, so a job that
 * runs again on the same machines has the same bits again. Between machines the last bits may
 * differ; bits that must not differ are made by ops.h. */
#ifndef GYRE_MODEL_KERNELS_DENSE_H
#define GYRE_MODEL_KERNELS_DENSE_H

#include "base/status.h"

#include <stddef.h>

enum gyre_dense_form { GYRE_DENSE_NN, GYRE_DENSE_NT, GYRE_DENSE_TN };

/* One product. Leading dimensions count floats from row to row. beta = 0 reads nothing of C. */
struct gyre_product {
    enum gyre_dense_form form;
    size_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    float *c;
    size_t lda, ldb, ldc;
};

/* An own product adds up so many terms of a sum apart from the others, wherever it computes. */
#define GYRE_DENSE_BLOCK 256

struct gyre_dense;

/* Allocates the workspace of one caller. The first create of a process looks for OpenBLAS, unless
 * GYRE_BLAS=own; with GYRE_BLAS=openblas its absence is an error. It sets OPENBLAS_NUM_THREADS=1
 * and, on a CPU with AVX-512, OPENBLAS_CORETYPE=SkylakeX while it loads the library, where they are
 * unset: one rank is one core, and older versions take newer CPUs for a Haswell. Call it before
 * other threads use the environment. -ENOMEM, GYRE_INVALID. */
int gyre_dense_create(struct gyre_dense **dense, struct gyre_trouble *trouble);
void gyre_dense_destroy(struct gyre_dense *dense); /* takes NULL */

/* Computes; never blocks, allocates or fails. One thread at a time for each `dense`. m, n and k may
 * be 0; C may not overlap A and B. */
void gyre_dense_multiply(struct gyre_dense *dense, const struct gyre_product *product);

/* "own avx2" or "OpenBLAS Zen, own avx2 if small". Lives as long as `dense`. */
const char *gyre_dense_name(const struct gyre_dense *dense);

#endif
