/* The two 8-bit floats of OCP by integer arithmetic: the same bits on every compiler and in every
 * rounding mode. Numbers are rounded as PyTorch's float8_e4m3fn and float8_e5m2 round them.
 *
 *     f8e4m3   s eeee mmm    bias 7; below 2^-6 steps of 2^-9; s 1111 111 is NaN, no infinity
 *     f8e5m2   s eeeee mm    bias 15; below 2^-14 steps of 2^-16; the upper half of a binary16
 */
#ifndef GYRE_BASE_FP8_H
#define GYRE_BASE_FP8_H

#include "base/half.h"

GYRE_HALF_WORD float gyre_f32_of_f8e4m3(uint8_t byte)
{
    uint32_t sign = (uint32_t)(byte & 0x80) << 24, exponent = byte >> 3 & 15, mantissa = byte & 7;
    if ((byte & 0x7f) == 0x7f)
        return gyre_f32_of_bits(sign | 0x7fc00000);
    if (exponent)
        return gyre_f32_of_bits(sign | (exponent + 120) << 23 | mantissa << 20);
    return gyre_f32_of_bits(sign | gyre_bits_of_f32((float)mantissa * 0x1p-9F));
}

GYRE_HALF_WORD uint8_t gyre_f8e4m3_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (size > 0x43e80000) /* more than 464 would round to 480, which is NaN's place */
        return sign | 0x7f;
    if (size >= 0x3c800000) /* 2^-6 and more are normal */
        return (uint8_t)(sign | gyre_shift_rounded(size - (UINT32_C(120) << 23), 20));
    if (size < 0x3a800000) /* less than half of the smallest step */
        return sign;
    uint32_t mantissa = (size & 0x7fffff) | 0x800000;
    return (uint8_t)(sign | gyre_shift_rounded(mantissa, 141 - (int)(size >> 23)));
}

GYRE_HALF_WORD float gyre_f32_of_f8e5m2(uint8_t byte)
{
    return gyre_f32_of_f16((uint16_t)(byte << 8));
}

GYRE_HALF_WORD uint8_t gyre_f8e5m2_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (size > 0x7f800000)
        return sign | 0x7f;
    if (size >= 0x47700000) /* 61440 and more round to infinity */
        return sign | 0x7c;
    if (size >= 0x38800000) /* 2^-14 and more are normal */
        return (uint8_t)(sign | gyre_shift_rounded(size - (UINT32_C(112) << 23), 21));
    if (size < 0x37000000) /* less than half of the smallest step */
        return sign;
    uint32_t mantissa = (size & 0x7fffff) | 0x800000;
    return (uint8_t)(sign | gyre_shift_rounded(mantissa, 134 - (int)(size >> 23)));
}

#endif
