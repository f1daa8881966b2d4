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
 * One line of the table below is one type and operation: its widen, op, finish and narrow.
 *
 * Elements are read and written as bytes, for any alignment. min and max compare bit patterns, so
 * denormals count also where the caller has the CPU ignore them. Everything faster is measured
 * against this file. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/half.h"
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

/* Division of each accumulator's type; 0 is no average. Wrapped sums of i32 and i64 are read as
 * signed again. */
#define DIVIDE(x, divisor)     ((divisor) ? (x) / (divisor) : (x))
#define DIVIDE_F32(x, divisor) ((divisor) ? (x) / (float)(divisor) : (x))
#define DIVIDE_F64(x, divisor) ((divisor) ? (x) / (double)(divisor) : (x))
#define DIVIDE_I32(x, divisor)                                                                     \
    ((divisor) ? (uint32_t)((int64_t)(int32_t)(x) / (int64_t)(divisor)) : (x))
#define DIVIDE_I64(x, divisor) ((divisor) ? (uint64_t)((int64_t)(x) / (int64_t)(divisor)) : (x))

/* Least and most of floating-point patterns: NaN wins, then -0 < +0 and otherwise as numbers. */
#define ORDERED(name, bits, signed_bits, sign, infinity)                                           \
    static bool is_nan_##name(bits x)                                                              \
    {                                                                                              \
        return (bits)(x & ~sign) > infinity;                                                       \
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

/* -- one line per (type, operation); sum is also avg ------------------------------------------- */

/* clang-format off */
FOLD(f32_sum,   float,    float,    AS_IS,            ADD,        DIVIDE_F32, AS_IS)
FOLD(f32_min,   uint32_t, uint32_t, AS_IS,            least_f32,  NO_FINISH,  AS_IS)
FOLD(f32_max,   uint32_t, uint32_t, AS_IS,            most_f32,   NO_FINISH,  AS_IS)
FOLD(f32_prod,  float,    float,    AS_IS,            TIMES,      NO_FINISH,  AS_IS)
FOLD(f64_sum,   double,   double,   AS_IS,            ADD,        DIVIDE_F64, AS_IS)
FOLD(f64_min,   uint64_t, uint64_t, AS_IS,            least_f64,  NO_FINISH,  AS_IS)
FOLD(f64_max,   uint64_t, uint64_t, AS_IS,            most_f64,   NO_FINISH,  AS_IS)
FOLD(f64_prod,  double,   double,   AS_IS,            TIMES,      NO_FINISH,  AS_IS)
FOLD(f16_sum,   uint16_t, float,    gyre_f32_of_f16,  ADD,        DIVIDE_F32, gyre_f16_of_f32)
FOLD(f16_min,   uint16_t, uint16_t, AS_IS,            least_f16,  NO_FINISH,  AS_IS)
FOLD(f16_max,   uint16_t, uint16_t, AS_IS,            most_f16,   NO_FINISH,  AS_IS)
FOLD(f16_prod,  uint16_t, float,    gyre_f32_of_f16,  TIMES,      NO_FINISH,  gyre_f16_of_f32)
FOLD(bf16_sum,  uint16_t, float,    gyre_f32_of_bf16, ADD,        DIVIDE_F32, gyre_bf16_of_f32)
FOLD(bf16_min,  uint16_t, uint16_t, AS_IS,            least_bf16, NO_FINISH,  AS_IS)
FOLD(bf16_max,  uint16_t, uint16_t, AS_IS,            most_bf16,  NO_FINISH,  AS_IS)
FOLD(bf16_prod, uint16_t, float,    gyre_f32_of_bf16, TIMES,      NO_FINISH,  gyre_bf16_of_f32)
FOLD(i32_sum,   uint32_t, uint32_t, AS_IS,            ADD,        DIVIDE_I32, AS_IS)
FOLD(i32_min,   int32_t,  int32_t,  AS_IS,            LEAST,      NO_FINISH,  AS_IS)
FOLD(i32_max,   int32_t,  int32_t,  AS_IS,            MOST,       NO_FINISH,  AS_IS)
FOLD(i32_prod,  uint32_t, uint32_t, AS_IS,            TIMES,      NO_FINISH,  AS_IS)
FOLD(i64_sum,   uint64_t, uint64_t, AS_IS,            ADD,        DIVIDE_I64, AS_IS)
FOLD(i64_min,   int64_t,  int64_t,  AS_IS,            LEAST,      NO_FINISH,  AS_IS)
FOLD(i64_max,   int64_t,  int64_t,  AS_IS,            MOST,       NO_FINISH,  AS_IS)
FOLD(i64_prod,  uint64_t, uint64_t, AS_IS,            TIMES,      NO_FINISH,  AS_IS)
FOLD(u8_sum,    uint8_t,  uint8_t,  AS_IS,            ADD,        DIVIDE,     AS_IS)
FOLD(u8_min,    uint8_t,  uint8_t,  AS_IS,            LEAST,      NO_FINISH,  AS_IS)
FOLD(u8_max,    uint8_t,  uint8_t,  AS_IS,            MOST,       NO_FINISH,  AS_IS)
FOLD(u8_prod,   uint8_t,  uint8_t,  AS_IS,            TIMES,      NO_FINISH,  AS_IS)

static const gyre_fold folds[GYRE_TYPE_COUNT][GYRE_OP_COUNT] = {
    /*               sum       avg       min       max       prod  */
    [GYRE_F32]  = { f32_sum,  f32_sum,  f32_min,  f32_max,  f32_prod },
    [GYRE_F64]  = { f64_sum,  f64_sum,  f64_min,  f64_max,  f64_prod },
    [GYRE_F16]  = { f16_sum,  f16_sum,  f16_min,  f16_max,  f16_prod },
    [GYRE_BF16] = { bf16_sum, bf16_sum, bf16_min, bf16_max, bf16_prod },
    [GYRE_I32]  = { i32_sum,  i32_sum,  i32_min,  i32_max,  i32_prod },
    [GYRE_I64]  = { i64_sum,  i64_sum,  i64_min,  i64_max,  i64_prod },
    [GYRE_U8]   = { u8_sum,   u8_sum,   u8_min,   u8_max,   u8_prod },
};
/* clang-format on */

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
