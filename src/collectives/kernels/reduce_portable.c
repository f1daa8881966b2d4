/* The sets of variants on a CPU for which no set is written: the reference alone.
 *
 * Tested by tests/kernel/reduce.c. */
#include "collectives/kernels/reduce_variant.h"

const struct gyre_reduce_variant gyre_reduce_variants[] = {
    {"scalar", gyre_reduce_scalar_supported, gyre_reduce_scalar_init, 0},
    {NULL, NULL, NULL, 0},
};
