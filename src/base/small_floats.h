/* The floats of 16 and 8 bits by integer arithmetic: the same bits on every compiler and in every
 * rounding mode. The two of 8 bits are OCP's, rounded as PyTorch's float8_e4m3fn and float8_e5m2.
 *
 *     binary32   s eeeeeeee mmmmmmmmmmmmmmmmmmmmmmm      bias 127
 *     bfloat16   s eeeeeeee mmmmmmm                      the upper half of a binary32
 *     binary16   s eeeee mmmmmmmmmm                      bias 15; below 2^-14 steps of 2^-24
 *     f8e5m2     s eeeee mm                              bias 15; the upper half of a binary16
 *     f8e4m3     s eeee mmm                              bias 7; s 1111 111 is NaN, no infinity
 */
#ifndef GYRE_BASE_SMALL_FLOATS_H
#define GYRE_BASE_SMALL_FLOATS_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define GYRE_FLOAT_WORD static inline __host__ __device__
#else
#define GYRE_FLOAT_WORD static inline
#endif

GYRE_FLOAT_WORD uint32_t gyre_bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

GYRE_FLOAT_WORD float gyre_f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* `bits` shifted right by 1 to 31, rounded to nearest, ties to even. */
GYRE_FLOAT_WORD uint32_t gyre_shift_rounded(uint32_t bits, int by)
{
    uint32_t rest = bits & ((UINT32_C(1) << by) - 1), half = UINT32_C(1) << (by - 1);
    uint32_t kept = bits >> by;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

/* A positive binary32 rounded to a float with `fraction` bits of significand and a bias less by
 * `less` than 127. Its exponent must be in range. */
GYRE_FLOAT_WORD uint32_t gyre_small_float(uint32_t size, int fraction, int less)
{
    int exponent = (int)(size >> 23), dropped = 23 - fraction;
    if (exponent > less) /* normal */
        return gyre_shift_rounded(size - ((uint32_t)less << 23), dropped);
    if (exponent < less - fraction) /* less than half of the smallest step */
        return 0;
    return gyre_shift_rounded((size & 0x7fffff) | 0x800000, dropped + 1 + less - exponent);
}

/* -- 16 bits ----------------------------------------------------------------------------------- */

GYRE_FLOAT_WORD float gyre_f32_of_bf16(uint16_t half)
{
    return gyre_f32_of_bits((uint32_t)half << 16);
}

GYRE_FLOAT_WORD uint16_t gyre_bf16_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)gyre_shift_rounded(bits, 16);
}

GYRE_FLOAT_WORD float gyre_f32_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 31)
        return gyre_f32_of_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    if (exponent)
        return gyre_f32_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    return gyre_f32_of_bits(sign | gyre_bits_of_f32((float)mantissa * 0x1p-24F));
}

GYRE_FLOAT_WORD uint16_t gyre_f16_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 1023));
    if (size >= 0x477ff000) /* 65520 and more round to infinity */
        return sign | 0x7c00;
    return (uint16_t)(sign | gyre_small_float(size, 10, 112));
}

/* -- 8 bits ------------------------------------------------------------------------------------ */

GYRE_FLOAT_WORD float gyre_f32_of_f8e4m3(uint8_t byte)
{
    uint32_t sign = (uint32_t)(byte & 0x80) << 24, exponent = byte >> 3 & 15, mantissa = byte & 7;
    if ((byte & 0x7f) == 0x7f)
        return gyre_f32_of_bits(sign | 0x7fc00000);
    if (exponent)
        return gyre_f32_of_bits(sign | (exponent + 120) << 23 | mantissa << 20);
    return gyre_f32_of_bits(sign | gyre_bits_of_f32((float)mantissa * 0x1p-9F));
}

GYRE_FLOAT_WORD uint8_t gyre_f8e4m3_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (size > 0x43e80000) /* more than 464 would round to 480, which is NaN's place */
        return sign | 0x7f;
    return (uint8_t)(sign | gyre_small_float(size, 3, 120));
}

GYRE_FLOAT_WORD float gyre_f32_of_f8e5m2(uint8_t byte)
{
    return gyre_f32_of_f16((uint16_t)(byte << 8));
}

GYRE_FLOAT_WORD uint8_t gyre_f8e5m2_of_f32(float value)
{
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (size > 0x7f800000)
        return sign | 0x7f;
    if (size >= 0x47700000) /* 61440 and more round to infinity */
        return sign | 0x7c;
    return (uint8_t)(sign | gyre_small_float(size, 2, 112));
}

#endif
