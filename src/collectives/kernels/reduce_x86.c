/* The sets of variants on x86-64. The compiler's runtime asks CPUID for the instructions, and
 * XGETBV for the registers that the kernel saves. Only F16C is asked by hand, because clang 14 does
 * not know the name.
 *
 * Tested by tests/kernel/reduce.c. */
#include "collectives/kernels/reduce_variant.h"

#include <cpuid.h>

static bool has_f16c(void)
{
    unsigned int a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_sse2(void)
{
    return true; /* SSE2 is part of x86-64 */
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

const struct gyre_reduce_variant gyre_reduce_variants[] = {
    {"scalar", gyre_reduce_scalar_supported, gyre_reduce_scalar_init, 0},
    {"sse2", has_sse2, gyre_reduce_sse2_init, 16},
    {"avx2", has_avx2, gyre_reduce_avx2_init, 32},
    {"avx512", has_avx512, gyre_reduce_avx512_init, 64},
    {"avx512bf16", has_avx512bf16, gyre_reduce_avx512bf16_init, 64},
    {NULL, NULL, NULL, 0},
};
