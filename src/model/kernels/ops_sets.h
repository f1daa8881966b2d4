/* The sets behind ops.h: each is a file of its own, compiled with its own flags. Enter one only
 * after the CPU was asked. */
#ifndef GYRE_MODEL_KERNELS_OPS_SETS_H
#define GYRE_MODEL_KERNELS_OPS_SETS_H

#include "model/kernels/ops.h"

extern const struct gyre_ops gyre_ops_scalar, gyre_ops_avx2, gyre_ops_avx512;

/* What this CPU has and its kernel saves; GYRE_KERNELS does not matter. AVX2 comes with FMA and
 * F16C, AVX-512 with F, BW, DQ and VL. False on other machines. */
bool gyre_has_avx2(void);
bool gyre_has_avx512(void);

/* The set as it is used: some entries may be those of a smaller one, where these are faster. Called
 * once, after the CPU was asked. */
const struct gyre_ops *gyre_ops_tuned(const struct gyre_ops *set);

/* GYRE_KERNELS as a rank among the sets: 0 allows the plain C only, 1 AVX2 too, 2 all. An unknown
 * word allows all and is told in a warning. */
int gyre_kernels_allowed(void);

#endif
