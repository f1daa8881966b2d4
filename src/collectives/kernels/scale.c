/* Sums of sources, each multiplied by a number of its own, in one pass.
 *
 *     source[0][i] ──▶ widen ──▶ times number[0] ─┐
 *     source[1][i] ──▶ widen ──▶ times number[1] ─┴─ sum ──▶ narrow ──▶ destination[0][i] …
 *
 * Most calls have one source and one destination, for weighted inputs (gyre_op_scaled). Memory
 * limits their speed, and the compiler's own vectors are fast enough.
 *
 * Tested by tests/unit/collectives/kernels/reduce_test.c. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/reduce.h"
#include "collectives/kernels/scalar.h"

/* The sum of floats starts from -0, which changes no summand. */
#define SCALE(type)                                                                                \
    static type##_lane type##_at(const void *elements, uint64_t i)                                 \
    {                                                                                              \
        type##_element next;                                                                       \
        memcpy(&next, (const char *)elements + i * sizeof next, sizeof next);                      \
        return type##_widen(next);                                                                 \
    }                                                                                              \
                                                                                                   \
    static void type##_scale_one(const struct gyre_fold_task *task)                                \
    {                                                                                              \
        const char *from = task->source[0];                                                        \
        char *to = task->destination[0];                                                           \
        const type##_lane number = type##_at(task->context, 0);                                    \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            type##_element next = type##_narrow(type##_at(from, i) * number);                      \
            memcpy(to + i * sizeof next, &next, sizeof next);                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void type##_scale_some(const struct gyre_fold_task *task)                               \
    {                                                                                              \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            type##_lane sum = -(type##_lane)0;                                                     \
            for (uint32_t s = 0; s < task->sources; s++)                                           \
                sum += type##_at(task->source[s], i) * type##_at(task->context, s);                \
            type##_element next = type##_narrow(sum);                                              \
            for (uint32_t d = 0; d < task->destinations; d++)                                      \
                memcpy((char *)task->destination[d] + i * sizeof next, &next, sizeof next);        \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void type##_scale(const struct gyre_fold_task *task, void *native_queue)                \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        if (task->sources == 1 && task->destinations == 1)                                         \
            type##_scale_one(task);                                                                \
        else                                                                                       \
            type##_scale_some(task);                                                               \
        gyre_float_mode_leave(mode);                                                               \
    }

/* Products and sums of signed integers are those of unsigned ones. */
#define SCALE_FLOAT       SCALE
#define SCALE_SMALL_FLOAT SCALE
#define SCALE_SIGNED(type)
#define SCALE_UNSIGNED                SCALE
#define SCALE_OF(ID, type, kind, ...) SCALE_##kind(type)
GYRE_TYPES(SCALE_OF)

gyre_fold gyre_scale(enum gyre_type type)
{
#define NAME_FLOAT(type, bits)                   type##_scale
#define NAME_SMALL_FLOAT(type, bits)             type##_scale
#define NAME_SIGNED(type, bits)                  u##bits##_scale
#define NAME_UNSIGNED(type, bits)                type##_scale
#define NAME(ID, type, kind, element, bits, ...) [GYRE_##ID] = NAME_##kind(type, bits),
    static const gyre_fold scales[GYRE_TYPE_COUNT] = {GYRE_TYPES(NAME)};
    return (unsigned)type < GYRE_TYPE_COUNT ? scales[type] : NULL;
}
