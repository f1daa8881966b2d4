/* The sets on every other machine: what the compiler makes of the plain loops (NEON on AArch64).
 * Tested by tests/kernel/ops.c. */
#include "model/kernels/ops_sets.h"

bool gyre_has_avx2(void)
{
    return false;
}

bool gyre_has_avx512(void)
{
    return false;
}

static bool always_works(void)
{
    return true;
}

const struct gyre_ops *gyre_ops_tuned(const struct gyre_ops *set)
{
    return set;
}

const struct gyre_ops_variant gyre_ops_variants[] = {
    {&gyre_ops_scalar, always_works},
    {NULL, NULL},
};
