/* The folds for 512-bit vectors. Compiled with the flags of AVX-512 F, BW, DQ and VL; entered only
 * after the CPU was asked.
 *
 * Tested by tests/kernel/reduce.c. */
#include "collectives/kernels/reduce_avx512.inc"

#include "collectives/kernels/reduce_kinds.inc"

void gyre_reduce_avx512_init(struct gyre_reduce_table *table)
{
    install(table, "avx512", folds);
}
