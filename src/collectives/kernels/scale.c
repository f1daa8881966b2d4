/* Multiplication by one number, for sums whose inputs are weighted. One source is read and one
 * destination written, so memory is the limit and the compiler's own vectors will do.
 *
 *     source[0][i] ──▶ widen ──▶ times the widened number ──▶ narrow ──▶ destination[0][i] */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/fp8.h"
#include "collectives/kernels/reduce.h"

#define AS_IS(x) (x)

#define SCALE(name, element, accumulator, widen, narrow)                                           \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        const char *from = task->source[0];                                                        \
        char *to = task->destination[0];                                                           \
        element next;                                                                              \
        memcpy(&next, task->context, sizeof next);                                                 \
        const accumulator number = widen(next);                                                    \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            memcpy(&next, from + i * sizeof next, sizeof next);                                    \
            next = (element)narrow(widen(next) * number);                                          \
            memcpy(to + i * sizeof next, &next, sizeof next);                                      \
        }                                                                                          \
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
