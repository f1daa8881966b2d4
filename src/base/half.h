/* binary16 and bfloat16 by integer arithmetic: the same bits on every compiler and in every
 * rounding mode.
 *
 *     binary32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm      bias 127
 *     bfloat16   s eeeeeeee mmmmmmm                      the upper half of a binary32
 *     binary16   s eeeee mmmmmmmmmm                      bias 15; below 2^-14 steps of 2^-24
 */
#ifndef GYRE_BASE_HALF_H
#define GYRE_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define GYRE_HALF_WORD static inline __host__ __device__
#else
#define GYRE_HALF_WORD static inline
#endif

GYRE_HALF_WORD uint32_t gyre_bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

GYRE_HALF_WORD float gyre_f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* `bits` shifted right by 1 to 31, rounded to nearest, ties to even. */
GYRE_HALF_WORD uint32_t gyre_shift_rounded(uint32_t bits, int by)
{
    uint32_t rest = bits & ((UINT32_C(1) << by) - 1), half = UINT32_C(1) << (by - 1);
    uint32_t kept = bits >> by;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

GYRE_HALF_WORD float gyre_f32_of_bf16(uint16_t half)
{
    return gyre_f32_of_bits((uint32_t)half << 16);
}

GYRE_HALF_WORD uint16_t gyre_bf16_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)gyre_shift_rounded(bits, 16);
}

GYRE_HALF_WORD float gyre_f32_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             mantissa = half & 1023;
    if (exponent == 31)
        return gyre_f32_of_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    if (exponent)
        return gyre_f32_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    if (!mantissa)
        return gyre_f32_of_bits(sign);
    int lead = __builtin_clz(mantissa) - 21; /* places to shift until bit 10 is set */
    mantissa = mantissa << lead & 1023;
    return gyre_f32_of_bits(sign | (uint32_t)(113 - lead) << 23 | mantissa << 13);
}

GYRE_HALF_WORD uint16_t gyre_f16_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 1023));
    if (size >= 0x477ff000) /* 65520 and more round to infinity */
        return sign | 0x7c00;
    if (size >= 0x38800000) /* 2^-14 and more are normal */
        return (uint16_t)(sign | gyre_shift_rounded(size - (UINT32_C(112) << 23), 13));
    if (size < 0x33000000) /* less than half of the smallest step */
        return sign;
    uint32_t mantissa = (size & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | gyre_shift_rounded(mantissa, 126 - (int)(size >> 23)));
}

#endif
