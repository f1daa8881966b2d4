/* Sums that are stored in another type than their sources, for values with 16 bits on the wire and
 * an f32 master.
 *
 *     source[0][i] ──▶ f32 ─┐
 *     source[1][i] ──▶ f32 ─┴─ sum ──▶ by the divisor ──▶ rounded once ──▶ destination[0][i] …
 *
 * Tested by tests/unit/collectives/kernels/reduce_test.c. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/reduce.h"
#include "collectives/kernels/scalar.h"

#define CAST(to, from)                                                                             \
    static float sum_##from##_to_##to(const struct gyre_fold_task *task, uint64_t i)               \
    {                                                                                              \
        from##_element next;                                                                       \
        float sum = -0.0f;                                                                         \
        for (uint32_t s = 0; s < task->sources; s++) {                                             \
            memcpy(&next, (const char *)task->source[s] + i * sizeof next, sizeof next);           \
            sum += from##_widen(next);                                                             \
        }                                                                                          \
        return task->divisor ? sum / (float)task->divisor : sum;                                   \
    }                                                                                              \
                                                                                                   \
    static void to##_of_##from(const struct gyre_fold_task *task, void *native_queue)              \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        (void)native_queue;                                                                        \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            to##_element result = to##_narrow(sum_##from##_to_##to(task, i));                      \
            for (uint32_t d = 0; d < task->destinations; d++)                                      \
                memcpy((char *)task->destination[d] + i * sizeof result, &result, sizeof result);  \
        }                                                                                          \
        gyre_float_mode_leave(mode);                                                               \
    }

CAST(bf16, f32)
CAST(f32, bf16)
CAST(f16, f32)
CAST(f32, f16)

gyre_fold gyre_cast(enum gyre_type from, enum gyre_type to)
{
    static const struct {
        enum gyre_type from, to;
        gyre_fold fold;
    } casts[] = {
        {GYRE_F32, GYRE_BF16, bf16_of_f32},
        {GYRE_BF16, GYRE_F32, f32_of_bf16},
        {GYRE_F32, GYRE_F16, f16_of_f32},
        {GYRE_F16, GYRE_F32, f32_of_f16},
    };
    for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++)
        if (casts[i].from == from && casts[i].to == to)
            return casts[i].fold;
    return NULL;
}
