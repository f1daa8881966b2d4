/* The scalar reference: every type, every operation, one element at a time.
 *
 * For each element the sources are folded in their order in an accumulator, and the result is
 * narrowed once and written to every destination. All of an element's sources are read before it is
 * written, so a destination may be a source.
 *
 *     source[0][i] ──▶ widen ──▶ sum
 *     source[1][i] ──▶ widen ──▶ sum = sum op …
 *     source[n][i] ──▶ widen ──▶ sum = sum op …
 *                                finish (the division), narrow ──▶ every destination[d][i]
 *
 * One FOLD below is one type and operation: its widen, op, finish and narrow.
 *
 * Elements are read and written as bytes, for any alignment. min and max compare bit patterns, so
 * denormals count also where the caller has the CPU ignore them. Everything faster is measured
 * against this file. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/fp8.h"
#include "collectives/kernels/reduce_variant.h"

/* -- the loop ---------------------------------------------------------------------------------- */

#define FOLD(name, element, accumulator, widen, combine, finish, narrow)                           \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            element next;                                                                          \
            memcpy(&next, (const char *)task->source[0] + i * sizeof next, sizeof next);           \
            accumulator sum = widen(next);                                                         \
            for (uint32_t s = 1; s < task->sources; s++) {                                         \
                memcpy(&next, (const char *)task->source[s] + i * sizeof next, sizeof next);       \
                sum = combine(sum, widen(next));                                                   \
            }                                                                                      \
            next = narrow(finish(sum, task->divisor));                                             \
            for (uint32_t d = 0; d < task->destinations; d++)                                      \
                memcpy((char *)task->destination[d] + i * sizeof next, &next, sizeof next);        \
        }                                                                                          \
        gyre_float_mode_leave(mode);                                                               \
    }

/* -- words of the table below ------------------------------------------------------------------ */

#define AS_IS(x)              (x)
#define NO_FINISH(x, divisor) (x)
#define ADD(a, b)             ((a) + (b))
#define TIMES(a, b)           ((a) * (b))
#define LEAST(a, b)           ((b) < (a) ? (b) : (a))
#define MOST(a, b)            ((b) > (a) ? (b) : (a))
#define AND(a, b)             ((a) & (b))
#define OR(a, b)              ((a) | (b))
#define XOR(a, b)             ((a) ^ (b))

/* Division of each accumulator's type; 0 is no average. Wrapped sums of signed integers are read as
 * signed again. */
#define DIVIDE(x, divisor)     ((divisor) ? (x) / (divisor) : (x))
#define DIVIDE_F32(x, divisor) ((divisor) ? (x) / (float)(divisor) : (x))
#define DIVIDE_F64(x, divisor) ((divisor) ? (x) / (double)(divisor) : (x))
#define DIVIDE_SIGNED(x, divisor, lane)                                                            \
    ((divisor) ? (uint64_t)((int64_t)(lane)(x) / (int64_t)(divisor)) : (x))
#define DIVIDE_I8(x, divisor)  DIVIDE_SIGNED(x, divisor, int8_t)
#define DIVIDE_I16(x, divisor) DIVIDE_SIGNED(x, divisor, int16_t)
#define DIVIDE_I32(x, divisor) DIVIDE_SIGNED(x, divisor, int32_t)
#define DIVIDE_I64(x, divisor) DIVIDE_SIGNED(x, divisor, int64_t)

/* Least and most of floating-point patterns: NaN wins, then -0 < +0 and otherwise as numbers.
 * `last` is the last pattern that is no NaN: infinity, or in f8e4m3 the largest number. */
#define ORDERED(name, bits, signed_bits, sign, last)                                               \
    static bool is_nan_##name(bits x)                                                              \
    {                                                                                              \
        return (bits)(x & ~sign) > last;                                                           \
    }                                                                                              \
    static signed_bits place_##name(bits x)                                                        \
    {                                                                                              \
        return x & sign ? (signed_bits)(-1 - (signed_bits)(x & ~sign)) : (signed_bits)x;           \
    }                                                                                              \
    static bits least_##name(bits a, bits b)                                                       \
    {                                                                                              \
        if (is_nan_##name(a) || is_nan_##name(b))                                                  \
            return is_nan_##name(a) ? a : b;                                                       \
        return place_##name(b) < place_##name(a) ? b : a;                                          \
    }                                                                                              \
    static bits most_##name(bits a, bits b)                                                        \
    {                                                                                              \
        if (is_nan_##name(a) || is_nan_##name(b))                                                  \
            return is_nan_##name(a) ? a : b;                                                       \
        return place_##name(b) > place_##name(a) ? b : a;                                          \
    }

ORDERED(f32, uint32_t, int32_t, UINT32_C(0x80000000), UINT32_C(0x7f800000))
ORDERED(f64, uint64_t, int64_t, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000000))
ORDERED(f16, uint16_t, int16_t, 0x8000, 0x7c00)
ORDERED(bf16, uint16_t, int16_t, 0x8000, 0x7f80)
ORDERED(f8e4m3, uint8_t, int8_t, 0x80, 0x7e)
ORDERED(f8e5m2, uint8_t, int8_t, 0x80, 0x7c)

/* -- one line per type; sum is also avg; products and bits see no sign ------------------------- */

#define FLOATS(type, element, accumulator, bits, widen, divide, narrow)                            \
    FOLD(type##_sum, element, accumulator, widen, ADD, divide, narrow)                             \
    FOLD(type##_min, bits, bits, AS_IS, least_##type, NO_FINISH, AS_IS)                            \
    FOLD(type##_max, bits, bits, AS_IS, most_##type, NO_FINISH, AS_IS)                             \
    FOLD(type##_prod, element, accumulator, widen, TIMES, NO_FINISH, narrow)

#define INTEGERS(type, element, wrapped, divide)                                                   \
    FOLD(type##_sum, wrapped, wrapped, AS_IS, ADD, divide, AS_IS)                                  \
    FOLD(type##_min, element, element, AS_IS, LEAST, NO_FINISH, AS_IS)                             \
    FOLD(type##_max, element, element, AS_IS, MOST, NO_FINISH, AS_IS)

#define WIDTH(width, element, accumulator)                                                         \
    FOLD(prod_##width, element, accumulator, AS_IS, TIMES, NO_FINISH, AS_IS)                       \
    FOLD(and_##width, element, element, AS_IS, AND, NO_FINISH, AS_IS)                              \
    FOLD(or_##width, element, element, AS_IS, OR, NO_FINISH, AS_IS)                                \
    FOLD(xor_##width, element, element, AS_IS, XOR, NO_FINISH, AS_IS)

/* clang-format off */
FLOATS(f32,    float,    float,  uint32_t, AS_IS,              DIVIDE_F32, AS_IS)
FLOATS(f64,    double,   double, uint64_t, AS_IS,              DIVIDE_F64, AS_IS)
FLOATS(f16,    uint16_t, float,  uint16_t, gyre_f32_of_f16,    DIVIDE_F32, gyre_f16_of_f32)
FLOATS(bf16,   uint16_t, float,  uint16_t, gyre_f32_of_bf16,   DIVIDE_F32, gyre_bf16_of_f32)
FLOATS(f8e4m3, uint8_t,  float,  uint8_t,  gyre_f32_of_f8e4m3, DIVIDE_F32, gyre_f8e4m3_of_f32)
FLOATS(f8e5m2, uint8_t,  float,  uint8_t,  gyre_f32_of_f8e5m2, DIVIDE_F32, gyre_f8e5m2_of_f32)
INTEGERS(i8,  int8_t,   uint8_t,  DIVIDE_I8)
INTEGERS(i16, int16_t,  uint16_t, DIVIDE_I16)
INTEGERS(i32, int32_t,  uint32_t, DIVIDE_I32)
INTEGERS(i64, int64_t,  uint64_t, DIVIDE_I64)
INTEGERS(u8,  uint8_t,  uint8_t,  DIVIDE)
INTEGERS(u16, uint16_t, uint16_t, DIVIDE)
INTEGERS(u32, uint32_t, uint32_t, DIVIDE)
INTEGERS(u64, uint64_t, uint64_t, DIVIDE)
WIDTH(8,  uint8_t,  uint32_t)
WIDTH(16, uint16_t, uint32_t)
WIDTH(32, uint32_t, uint32_t)
WIDTH(64, uint64_t, uint64_t)
/* clang-format on */

static const gyre_fold folds[GYRE_TYPE_COUNT][GYRE_OP_COUNT] = GYRE_FOLDS;

bool gyre_reduce_scalar_supported(void)
{
    return true;
}

void gyre_reduce_scalar_init(struct gyre_reduce_table *table)
{
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        for (int op = 0; op < GYRE_OP_COUNT; op++) {
            table->fold[type][op] = folds[type][op];
            table->variant[type][op] = "scalar";
        }
    }
}
