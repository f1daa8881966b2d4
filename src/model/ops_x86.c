/* The sets on x86-64. The compiler's runtime asks CPUID, and XGETBV for what the kernel saves; only
 * F16C is asked by hand, because clang 14 does not know its name. */
#include "model/ops_sets.h"

#include <cpuid.h>

static bool has_f16c(void)
{
    unsigned int a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool gyre_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool gyre_has_avx512(void)
{
    return gyre_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool always(void)
{
    return true;
}

const struct gyre_ops_variant gyre_ops_variants[] = {
    {&gyre_ops_scalar, always},
    {&gyre_ops_avx2, gyre_has_avx2},
    {&gyre_ops_avx512, gyre_has_avx512},
    {NULL, NULL},
};
