/* Sums that are stored in another type than their sources: what is narrow on the wire has an f32
 * master.
 *
 *     source[0][i] ──▶ f32 ─┐
 *     source[1][i] ──▶ f32 ─┴─ sum ──▶ by the divisor ──▶ rounded once ──▶ destination[0][i] … */
#include "collectives/kernels/float_mode.h"
#include "base/half.h"
#include "collectives/kernels/reduce.h"

#include <string.h>

#define AS_IS(x) (x)

#define CAST(name, source_type, widen, destination_type, narrow)                                   \
    static float sum_##name(const struct gyre_fold_task *task, uint64_t i)                         \
    {                                                                                              \
        source_type next;                                                                          \
        float sum = -0.0f;                                                                         \
        for (uint32_t s = 0; s < task->sources; s++) {                                             \
            memcpy(&next, (const char *)task->source[s] + i * sizeof next, sizeof next);           \
            sum += widen(next);                                                                    \
        }                                                                                          \
        return task->divisor ? sum / (float)task->divisor : sum;                                   \
    }                                                                                              \
                                                                                                   \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        (void)native_queue;                                                                        \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            destination_type result = narrow(sum_##name(task, i));                                 \
            for (uint32_t d = 0; d < task->destinations; d++)                                      \
                memcpy((char *)task->destination[d] + i * sizeof result, &result, sizeof result);  \
        }                                                                                          \
        gyre_float_mode_leave(mode);                                                               \
    }

/* clang-format off */
CAST(bf16_of_f32s, float,    AS_IS,            uint16_t, gyre_bf16_of_f32)
CAST(f32_of_bf16s, uint16_t, gyre_f32_of_bf16, float,    AS_IS)
CAST(f16_of_f32s,  float,    AS_IS,            uint16_t, gyre_f16_of_f32)
CAST(f32_of_f16s,  uint16_t, gyre_f32_of_f16,  float,    AS_IS)
/* clang-format on */

gyre_fold gyre_cast(enum gyre_type from, enum gyre_type to)
{
    static const struct {
        enum gyre_type from, to;
        gyre_fold fold;
    } casts[] = {
        {GYRE_F32, GYRE_BF16, bf16_of_f32s},
        {GYRE_BF16, GYRE_F32, f32_of_bf16s},
        {GYRE_F32, GYRE_F16, f16_of_f32s},
        {GYRE_F16, GYRE_F32, f32_of_f16s},
    };
    for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++)
        if (casts[i].from == from && casts[i].to == to)
            return casts[i].fold;
    return NULL;
}
