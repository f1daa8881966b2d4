/* Sums of sources each multiplied by a number of its own, in one pass.
 *
 *     source[0][i] ──▶ widen ──▶ times number[0] ─┐
 *     source[1][i] ──▶ widen ──▶ times number[1] ─┴─ sum ──▶ narrow ──▶ destination[0][i] …
 *
 * What is called most has one source and one destination, for weighted inputs (gyre_op_scaled): there
 * memory is the limit, and the compiler's own vectors will do. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/fp8.h"
#include "collectives/kernels/reduce.h"

#define AS_IS(x) (x)

/* A sum starts from what changes nothing: -0 of floats. */
#define SCALE(name, element, accumulator, widen, narrow)                                           \
    static element name##_at(const void *elements, uint64_t i)                                     \
    {                                                                                              \
        element next;                                                                              \
        memcpy(&next, (const char *)elements + i * sizeof next, sizeof next);                      \
        return next;                                                                               \
    }                                                                                              \
                                                                                                   \
    static void name##_one(const struct gyre_fold_task *task)                                      \
    {                                                                                              \
        const char *from = task->source[0];                                                        \
        char *to = task->destination[0];                                                           \
        const accumulator number = widen(name##_at(task->context, 0));                             \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            element next = (element)narrow(widen(name##_at(from, i)) * number);                    \
            memcpy(to + i * sizeof next, &next, sizeof next);                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name##_some(const struct gyre_fold_task *task)                                     \
    {                                                                                              \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            accumulator sum = -(accumulator)0;                                                     \
            for (uint32_t s = 0; s < task->sources; s++)                                           \
                sum += (accumulator)widen(name##_at(task->source[s], i)) *                         \
                       (accumulator)widen(name##_at(task->context, s));                            \
            element next = (element)narrow(sum);                                                   \
            for (uint32_t d = 0; d < task->destinations; d++)                                      \
                memcpy((char *)task->destination[d] + i * sizeof next, &next, sizeof next);        \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        if (task->sources == 1 && task->destinations == 1)                                         \
            name##_one(task);                                                                      \
        else                                                                                       \
            name##_some(task);                                                                     \
        gyre_float_mode_leave(mode);                                                               \
    }

/* clang-format off */
SCALE(scale_f32,    float,    float,    AS_IS,              AS_IS)
SCALE(scale_f64,    double,   double,   AS_IS,              AS_IS)
SCALE(scale_f16,    uint16_t, float,    gyre_f32_of_f16,    gyre_f16_of_f32)
SCALE(scale_bf16,   uint16_t, float,    gyre_f32_of_bf16,   gyre_bf16_of_f32)
SCALE(scale_f8e4m3, uint8_t,  float,    gyre_f32_of_f8e4m3, gyre_f8e4m3_of_f32)
SCALE(scale_f8e5m2, uint8_t,  float,    gyre_f32_of_f8e5m2, gyre_f8e5m2_of_f32)
SCALE(scale_8,      uint8_t,  uint32_t, AS_IS,              AS_IS)
SCALE(scale_16,     uint16_t, uint32_t, AS_IS,              AS_IS)
SCALE(scale_32,     uint32_t, uint32_t, AS_IS,              AS_IS)
SCALE(scale_64,     uint64_t, uint64_t, AS_IS,              AS_IS)
/* clang-format on */

gyre_fold gyre_scale(enum gyre_type type)
{
    static const gyre_fold scales[GYRE_TYPE_COUNT] = {
        [GYRE_F32] = scale_f32,       [GYRE_F64] = scale_f64,       [GYRE_F16] = scale_f16,
        [GYRE_BF16] = scale_bf16,     [GYRE_I32] = scale_32,        [GYRE_I64] = scale_64,
        [GYRE_U8] = scale_8,          [GYRE_I8] = scale_8,          [GYRE_U32] = scale_32,
        [GYRE_U64] = scale_64,        [GYRE_I16] = scale_16,        [GYRE_U16] = scale_16,
        [GYRE_F8E4M3] = scale_f8e4m3, [GYRE_F8E5M2] = scale_f8e5m2,
    };
    return (unsigned)type < GYRE_TYPE_COUNT ? scales[type] : NULL;
}
