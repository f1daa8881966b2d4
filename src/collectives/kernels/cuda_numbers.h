/* The numbers of the CUDA folds: how each type is stored (its element), in which type it is
 * computed (its lane), and the conversions between the two.
 *
 *     element ──widen──▶ lane … lane ──narrow──▶ element
 *
 * Floats narrower than 32 bits are computed in f32 and rounded once, to nearest even, with the
 * functions of small_floats.h, which the reference uses, too. Where a device has an instruction for
 * such a conversion, the instruction takes the function's place and gives the same bits. Integers
 * of up to 32 bits are computed in 32, unsigned, and wrap where they are narrowed. */
#ifndef GYRE_COLLECTIVES_KERNELS_CUDA_NUMBERS_H
#define GYRE_COLLECTIVES_KERNELS_CUDA_NUMBERS_H

#include "base/small_floats.h"
#include "base/types.h"

#include <cuda_runtime.h>

/* -- words that devices have instructions for -------------------------------------------------- */

#if defined(__CUDA_ARCH__)

static __device__ __forceinline__ float f32_of_f16(uint16_t half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

static __device__ __forceinline__ uint16_t f16_of_f32(float value)
{
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

#else
#define f32_of_f16 gyre_f32_of_f16
#define f16_of_f32 gyre_f16_of_f32
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

static __device__ __forceinline__ uint16_t bf16_of_f32(float value)
{
    uint16_t half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

#else
#define bf16_of_f32 gyre_bf16_of_f32
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890

/* Instructions of 8-bit floats take pairs, of which the lower half is used here, and never
 * overflow. */
static __device__ __forceinline__ float f32_of_f8e4m3(uint8_t byte)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)byte));
    return f32_of_f16((uint16_t)pair);
}

static __device__ __forceinline__ float f32_of_f8e5m2(uint8_t byte)
{
    return f32_of_f16((uint16_t)(byte << 8));
}

static __device__ __forceinline__ uint8_t f8e4m3_of_f32(float value)
{
    uint16_t pair;
    uint32_t bits = gyre_bits_of_f32(value);
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return (uint8_t)((bits & 0x7fffffff) > 0x43e80000 ? (bits >> 24 & 0x80) | 0x7f : pair);
}

static __device__ __forceinline__ uint8_t f8e5m2_of_f32(float value)
{
    uint16_t pair;
    uint32_t bits = gyre_bits_of_f32(value), size = bits & 0x7fffffff;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    bool infinite = size >= 0x47700000 && size <= 0x7f800000;
    return (uint8_t)(infinite ? (bits >> 24 & 0x80) | 0x7c : pair);
}

#else
#define f32_of_f8e4m3 gyre_f32_of_f8e4m3
#define f32_of_f8e5m2 gyre_f32_of_f8e5m2
#define f8e4m3_of_f32 gyre_f8e4m3_of_f32
#define f8e5m2_of_f32 gyre_f8e5m2_of_f32
#endif

#define f32_of_bf16 gyre_f32_of_bf16

/* -- floats ------------------------------------------------------------------------------------ */

#define NUMBER(type, stored, computed, to_lane, to_element)                                        \
    struct type {                                                                                  \
        typedef stored element;                                                                    \
        typedef computed lane;                                                                     \
        static __device__ __forceinline__ lane widen(element x)                                    \
        {                                                                                          \
            return to_lane(x);                                                                     \
        }                                                                                          \
        static __device__ __forceinline__ element narrow(lane x)                                   \
        {                                                                                          \
            return to_element(x);                                                                  \
        }                                                                                          \
        static __device__ __forceinline__ lane zero()                                              \
        {                                                                                          \
            return -(lane)0;                                                                       \
        }                                                                                          \
        static __device__ __forceinline__ lane one()                                               \
        {                                                                                          \
            return 1;                                                                              \
        }                                                                                          \
        static __device__ __forceinline__ lane divide(lane x, uint32_t divisor)                    \
        {                                                                                          \
            return x / (lane)divisor;                                                              \
        }                                                                                          \
    };

#define NUMBER_FLOAT(type, element)       NUMBER(type, element, element, , )
#define NUMBER_SMALL_FLOAT(type, element) NUMBER(type, element, float, f32_of_##type, type##_of_f32)
#define NUMBER_SIGNED(type, element)
#define NUMBER_UNSIGNED(type, element)

#define NUMBER_OF(ID, type, kind, element, ...) NUMBER_##kind(type, element)
GYRE_TYPES(NUMBER_OF)

/* -- lanes of integers ------------------------------------------------------------------------- */

/* The lanes for elements of BITS bits: `wrapped` for sums that wrap, `order` where the sign
 * counts. */
template <int BITS> struct lanes_of {
    typedef uint32_t wrapped;
    typedef int32_t order;
};

template <> struct lanes_of<64> {
    typedef uint64_t wrapped;
    typedef int64_t order;
};

/* -- patterns of floats in their order --------------------------------------------------------- */

/* A float's pattern as an integer that compares as the float does: -0 < +0. Every NaN goes to the
 * end that wins, the lowest for a minimum and the highest for a maximum. `LAST` is the last pattern
 * that is no NaN. The same step converts in both directions. */
template <class Signed, class Lane, Signed LAST, bool HIGHEST> struct ordered {
    typedef Signed element;
    typedef Lane lane;
    static constexpr int sign_place = 8 * sizeof(Signed) - 1;
    static constexpr Lane sign = -((Lane)1 << (sign_place - 1)) * 2, size = ~sign;

    static __device__ __forceinline__ lane lowest()
    {
        return sign;
    }
    static __device__ __forceinline__ lane highest()
    {
        return size;
    }
    static __device__ __forceinline__ lane turn(lane x)
    {
        return x ^ (x >> sign_place & size);
    }
    static __device__ __forceinline__ lane widen(element pattern)
    {
        lane x = pattern;
        if ((x & size) > LAST)
            x = HIGHEST ? x & size : x | sign;
        return turn(x);
    }
    static __device__ __forceinline__ element narrow(lane x)
    {
        return (element)turn(x);
    }
};

/* -- integers ---------------------------------------------------------------------------------- */

/* `Lane` is unsigned where sums wrap, and of the element's sign where its order counts. */
template <class Element, class Lane> struct whole {
    typedef Element element;
    typedef Lane lane;
    static constexpr int sign_place = 8 * sizeof(Lane) - 1;

    static __device__ __forceinline__ lane zero()
    {
        return 0;
    }
    static __device__ __forceinline__ lane one()
    {
        return 1;
    }
    static __device__ __forceinline__ lane ones()
    {
        return ~(lane)0;
    }
    static __device__ __forceinline__ lane lowest()
    {
        return (Lane)-1 < (Lane)1 ? -((lane)1 << (sign_place - 1)) * 2 : 0;
    }
    static __device__ __forceinline__ lane highest()
    {
        return ~lowest();
    }
    static __device__ __forceinline__ lane widen(element x)
    {
        return (lane)x;
    }
    static __device__ __forceinline__ element narrow(lane x)
    {
        return (element)x;
    }
    static __device__ __forceinline__ lane divide(lane x, uint32_t divisor)
    {
        return (lane)(element)x / divisor;
    }
};

/* A wrapped sum is read as signed again, and the quotient of its size is the truncated one. */
template <class Element, class Lane> struct whole_signed : whole<Element, Lane> {
    static __device__ __forceinline__ Lane divide(Lane x, uint32_t divisor)
    {
        Element sum = (Element)x;
        Lane wide = (Lane)sum;
        return sum < 0 ? -(-wide / divisor) : wide / divisor;
    }
};

#endif
