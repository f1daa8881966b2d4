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
 * One FOLD below is one type and reduction. Elements are read and written as bytes, for any
 * alignment. min and max compare bit patterns, so denormals count also where the caller has the CPU
 * ignore them. Everything faster is measured against this file.
 *
 * Tested by tests/unit/collectives/kernels/reduce_test.c. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/reduce_variant.h"
#include "collectives/kernels/scalar.h"

/* -- the loop ---------------------------------------------------------------------------------- */

/* `result` is of the lanes a and b, `finished` of a, once b was the last source's. */
#define FOLD(name, element, lane, widen, result, finished)                                         \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = gyre_float_mode_enter();                                            \
        for (uint64_t i = 0; i < task->count; i++) {                                               \
            element next;                                                                          \
            memcpy(&next, (const char *)task->source[0] + i * sizeof next, sizeof next);           \
            lane a = widen(next);                                                                  \
            for (uint32_t s = 1; s < task->sources; s++) {                                         \
                memcpy(&next, (const char *)task->source[s] + i * sizeof next, sizeof next);       \
                const lane b = widen(next);                                                        \
                a = (lane)(result);                                                                \
            }                                                                                      \
            next = finished;                                                                       \
            for (uint32_t d = 0; d < task->destinations; d++)                                      \
                memcpy((char *)task->destination[d] + i * sizeof next, &next, sizeof next);        \
        }                                                                                          \
        gyre_float_mode_leave(mode);                                                               \
    }

#define AS_IS(x) (x)

/* -- patterns of floats in their order --------------------------------------------------------- */

/* One of two patterns: the first NaN there is, else by the places where their numbers stand, -0
 * below +0. `result` is of the places a and b. */
#define ORDERED(type, op, result, bits, last)                                                      \
    static uint##bits##_t type##_##op##_of_two(uint##bits##_t x, uint##bits##_t y)                 \
    {                                                                                              \
        const uint##bits##_t top = INT##bits##_MAX;                                                \
        if ((x & top) > last || (y & top) > last)                                                  \
            return (x & top) > last ? x : y;                                                       \
        int##bits##_t a = (int##bits##_t)(x > top ? x ^ top : x);                                  \
        int##bits##_t b = (int##bits##_t)(y > top ? y ^ top : y);                                  \
        return (result) == a ? x : y;                                                              \
    }

/* -- the folds of each kind of type, by the family of the reduction ---------------------------- */

#define COMPUTED(type, op, result, finished)                                                       \
    FOLD(type##_##op, type##_element, type##_lane, type##_widen, result, finished)

#define FLOAT_SUM(type, op, result, ...) COMPUTED(type, op, result, type##_mean(a, task->divisor))
#define FLOAT_AVERAGE(...)
#define FLOAT_PRODUCT(type, op, result, ...) COMPUTED(type, op, result, type##_narrow(a))
#define FLOAT_ORDER(type, op, result, element, bits, last)                                         \
    ORDERED(type, op, result, bits, last)                                                          \
    FOLD(type##_##op, uint##bits##_t, uint##bits##_t, AS_IS, type##_##op##_of_two(a, b), a)
#define FLOAT_BITS(...)

#define SIGNED_SUM FLOAT_SUM
#define SIGNED_AVERAGE(...)
#define SIGNED_PRODUCT(...)
#define SIGNED_ORDER(type, op, result, element, ...)                                               \
    FOLD(type##_##op, element, element, AS_IS, result, a)
#define SIGNED_BITS(...)

#define UNSIGNED_SUM FLOAT_SUM
#define UNSIGNED_AVERAGE(...)
#define UNSIGNED_PRODUCT FLOAT_PRODUCT
#define UNSIGNED_ORDER   SIGNED_ORDER
#define UNSIGNED_BITS    FLOAT_PRODUCT

#define FOLD_OF_FLOAT(OP, op, family, neutral, result, type, ...)                                  \
    FLOAT_##family(type, op, result, __VA_ARGS__)
#define FOLD_OF_SMALL_FLOAT FOLD_OF_FLOAT
#define FOLD_OF_SIGNED(OP, op, family, neutral, result, type, ...)                                 \
    SIGNED_##family(type, op, result, __VA_ARGS__)
#define FOLD_OF_UNSIGNED(OP, op, family, neutral, result, type, ...)                               \
    UNSIGNED_##family(type, op, result, __VA_ARGS__)

#define FOLDS(ID, type, kind, element, bits, fraction, last)                                       \
    GYRE_REDUCTIONS(FOLD_OF_##kind, type, element, bits, last)
GYRE_TYPES(FOLDS)

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
