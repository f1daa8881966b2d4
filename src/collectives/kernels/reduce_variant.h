/* What the files behind reduce.h share: each set of variants announces itself here. */
#ifndef GYRE_COLLECTIVES_KERNELS_REDUCE_VARIANT_H
#define GYRE_COLLECTIVES_KERNELS_REDUCE_VARIANT_H

#include "collectives/kernels/reduce.h"

bool gyre_reduce_scalar_supported(void);
void gyre_reduce_scalar_init(struct gyre_reduce_table *table);

/* The files of these are compiled with their own -m flags: call init() only where the CPU was asked
 * first. */
void gyre_reduce_sse4_init(struct gyre_reduce_table *table);
void gyre_reduce_avx2_init(struct gyre_reduce_table *table);
void gyre_reduce_avx512_init(struct gyre_reduce_table *table);

#endif
