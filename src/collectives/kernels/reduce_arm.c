/* The sets of variants on AArch64. Every processor has NEON; the kernel says whether this one has
 * SVE.
 *
 * Tested by tests/kernel/reduce.c. */
#include "collectives/kernels/reduce_variant.h"

#include <sys/auxv.h>

static bool has_neon(void)
{
    return true;
}

static bool has_sve(void)
{
    return getauxval(AT_HWCAP) & HWCAP_SVE;
}

const struct gyre_reduce_variant gyre_reduce_variants[] = {
    {"scalar", gyre_reduce_scalar_supported, gyre_reduce_scalar_init, 0},
    {"neon", has_neon, gyre_reduce_neon_init, 16},
    {"sve", has_sve, gyre_reduce_sve_init, 0},
    {NULL, NULL, NULL, 0},
};
