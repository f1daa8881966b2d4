/* The sets on x86-64. The compiler's runtime asks CPUID, and XGETBV for what the kernel saves; only
 * F16C is asked by hand, because clang 14 does not know its name. Tested by tests/kernel/ops.c. */
#include "model/kernels/ops_sets.h"

#include <cpuid.h>

static bool runs_f16c(void)
{
    unsigned int a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool gyre_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && runs_f16c();
}

bool gyre_has_avx512(void)
{
    return gyre_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool always_runs(void)
{
    return true;
}

/* What is longer than a line of the cache is read in halves wherever it does not begin at one, and
 * gradients of a bucket seldom do. GB/s of AVX2 and of AVX-512 for 4096 elements in cache, at a
 * line's beginning and one float behind it (Ice Lake):
 *
 *     column_sums   118, 101    83, 61          dot    42, 40     42, 40
 *     sgd           129, 143   104, 74          adam   49, 47     49, 47
 *
 * Elsewhere AVX-512 gains more at the beginning of lines, where activations are, than it loses. */
const struct gyre_ops *gyre_ops_tuned(const struct gyre_ops *set)
{
    static struct gyre_ops tuned;
    if (set != &gyre_ops_avx512)
        return set;
    tuned = gyre_ops_avx512;
    tuned.column_sums = gyre_ops_avx2.column_sums;
    tuned.dot = gyre_ops_avx2.dot;
    tuned.sgd = gyre_ops_avx2.sgd;
    tuned.adam = gyre_ops_avx2.adam;
    tuned.adamw = gyre_ops_avx2.adamw;
    return &tuned;
}

const struct gyre_ops_variant gyre_ops_variants[] = {
    {&gyre_ops_scalar, always_runs},
    {&gyre_ops_avx2, gyre_has_avx2},
    {&gyre_ops_avx512, gyre_has_avx512},
    {NULL, NULL},
};
