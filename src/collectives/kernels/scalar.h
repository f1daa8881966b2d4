/* How the loops over single elements compute each type. For a type T:
 *
 *     T_element ──T_widen──▶ T_lane … T_lane ──T_narrow──▶ T_element
 *
 * T_mean() narrows the quotient of a sum and a divisor, or the sum where the divisor is 0. Lanes of
 * integers are unsigned, as wide as C needs to multiply them, and wrap where they are narrowed; the
 * quotient of a signed type is the wrapped sum's. */
#ifndef GYRE_COLLECTIVES_KERNELS_SCALAR_H
#define GYRE_COLLECTIVES_KERNELS_SCALAR_H

#include "base/small_floats.h"
#include "base/types.h"

#define GYRE_SCALAR(type, element, lane, widened, narrowed, quotient)                              \
    typedef element type##_element;                                                                \
    typedef lane type##_lane;                                                                      \
    static inline type##_lane type##_widen(type##_element x)                                       \
    {                                                                                              \
        return widened;                                                                            \
    }                                                                                              \
    static inline type##_element type##_narrow(type##_lane x)                                      \
    {                                                                                              \
        return narrowed;                                                                           \
    }                                                                                              \
    static inline type##_element type##_mean(type##_lane x, uint32_t divisor)                      \
    {                                                                                              \
        return type##_narrow(divisor ? (type##_lane)(quotient) : x);                               \
    }

#define GYRE_SCALAR_FLOAT(type, element, bits)                                                     \
    GYRE_SCALAR(type, element, element, x, x, x / (element)divisor)
#define GYRE_SCALAR_SMALL_FLOAT(type, element, bits)                                               \
    GYRE_SCALAR(type, element, float, gyre_f32_of_##type(x), gyre_##type##_of_f32(x),              \
                x / (float)divisor)
#define GYRE_SCALAR_SIGNED(type, element, bits)                                                    \
    GYRE_SCALAR(type, element, GYRE_SCALAR_LANE_##bits, (type##_lane)x, (element)x,                \
                (element)x / (int64_t)divisor)
#define GYRE_SCALAR_UNSIGNED(type, element, bits)                                                  \
    GYRE_SCALAR(type, element, GYRE_SCALAR_LANE_##bits, x, (element)x, (element)x / divisor)

#define GYRE_SCALAR_LANE_8  uint8_t
#define GYRE_SCALAR_LANE_16 uint32_t
#define GYRE_SCALAR_LANE_32 uint32_t
#define GYRE_SCALAR_LANE_64 uint64_t

#define GYRE_SCALAR_OF(ID, type, kind, element, bits, ...) GYRE_SCALAR_##kind(type, element, bits)
GYRE_TYPES(GYRE_SCALAR_OF)

#endif
