/* Vectors as long as the processor has them, 16 to 256 bytes: SVE. Compiled with +sve; entered only
 * after the kernel was asked.
 *
 * A vector's length is not known here, so the loop of reduce_vector.inc, which keeps vectors in
 * arrays, does not serve. It is not needed either: a predicate says which lanes there still are, so
 * no column overlaps another and every count, down to 1, runs through the same loop.
 *
 *     source     |........|........|........|.....|
 *     predicate   11111111 11111111 11111111 11111000
 *                 └─ first ┘└ second ┘ are folded side by side, to cover an addition's latency
 *
 * Types that are wider in the accumulator are read into lanes of 32 bits each. FMIN and FMAX are
 * what min and max are to be (NaN wins, -0 is below +0); where a type has none, patterns are put in
 * order as reduce_words.inc explains. Integer averages are left to the set before. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/reduce_variant.h"

#include <arm_sve.h>

#define INLINE static inline __attribute__((always_inline))

/* -- the loop ---------------------------------------------------------------------------------- */

/* `lanes` is the suffix of svcnt for the lanes in a vector, `width` their bits. */
#define FOLD(name, rounds, v_call, lanes, width, load, combine, finish, store)                     \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = rounds ? gyre_float_mode_enter() : 0;                               \
        const uint64_t step = svcnt##lanes();                                                      \
        for (uint64_t i = 0, j = step; i < task->count; i += 2 * step, j += 2 * step) {            \
            const svbool_t p = svwhilelt_b##width(i, task->count);                                 \
            const svbool_t q = svwhilelt_b##width(j, task->count);                                 \
            v_call first = load(p, task->source[0], i), second = load(q, task->source[0], j);      \
            for (uint32_t s = 1; s < task->sources; s++) {                                         \
                first = combine(p, first, load(p, task->source[s], i));                            \
                second = combine(q, second, load(q, task->source[s], j));                          \
            }                                                                                      \
            first = finish(p, first, task->divisor);                                               \
            second = finish(q, second, task->divisor);                                             \
            for (uint32_t d = 0; d < task->destinations; d++) {                                    \
                store(p, task->destination[d], i, first, task->stream);                            \
                store(q, task->destination[d], j, second, task->stream);                           \
            }                                                                                      \
        }                                                                                          \
        if (rounds)                                                                                \
            gyre_float_mode_leave(mode);                                                           \
    }

/* -- loading and storing ----------------------------------------------------------------------- */

#define FULL(lane, v_call, element)                                                                \
    INLINE v_call load_##lane(svbool_t p, const void *from, uint64_t i)                            \
    {                                                                                              \
        return svld1_##lane(p, (const element *)from + i);                                         \
    }                                                                                              \
    INLINE void store_##lane(svbool_t p, void *to, uint64_t i, v_call value, bool stream)          \
    {                                                                                              \
        if (stream)                                                                                \
            svstnt1_##lane(p, (element *)to + i, value);                                           \
        else                                                                                       \
            svst1_##lane(p, (element *)to + i, value);                                             \
    }

FULL(f32, svfloat32_t, float)
FULL(f64, svfloat64_t, double)
FULL(f16, svfloat16_t, float16_t)
FULL(s8, svint8_t, int8_t)
FULL(u8, svuint8_t, uint8_t)
FULL(s16, svint16_t, int16_t)
FULL(u16, svuint16_t, uint16_t)
FULL(s32, svint32_t, int32_t)
FULL(u32, svuint32_t, uint32_t)
FULL(s64, svint64_t, int64_t)
FULL(u64, svuint64_t, uint64_t)

INLINE svfloat32_t widen_f16(svbool_t p, svuint32_t half)
{
    return svcvt_f32_f16_x(p, svreinterpret_f16_u32(half));
}

INLINE svuint32_t narrow_f16(svbool_t p, svfloat32_t value)
{
    return svreinterpret_u32_f16(svcvt_f16_f32_x(p, value));
}

INLINE svfloat32_t widen_bf16(svbool_t p, svuint32_t half)
{
    return svreinterpret_f32_u32(svlsl_n_u32_x(p, half, 16));
}

INLINE svuint32_t narrow_bf16(svbool_t p, svfloat32_t value)
{
    svuint32_t bits = svreinterpret_u32_f32(value), kept = svlsr_n_u32_x(p, bits, 16);
    svuint32_t tie = svadd_n_u32_x(p, svand_n_u32_x(p, kept, 1), 0x7fff);
    svuint32_t rounded = svlsr_n_u32_x(p, svadd_u32_x(p, bits, tie), 16);
    return svsel_u32(svcmpuo_f32(p, value, value), svorr_n_u32_x(p, kept, 0x40), rounded);
}

INLINE svfloat32_t widen_f8e5m2(svbool_t p, svuint32_t byte)
{
    return widen_f16(p, svlsl_n_u32_x(p, byte, 8));
}

/* As in reduce_words.inc: a binary16 that is 2^8 times too small. */
INLINE svfloat32_t widen_f8e4m3(svbool_t p, svuint32_t byte)
{
    svuint32_t size = svand_n_u32_x(p, byte, 0x7f), sign = svand_n_u32_x(p, byte, 0x80);
    svuint32_t half = svorr_u32_x(p, svlsl_n_u32_x(p, size, 7), svlsl_n_u32_x(p, sign, 8));
    half = svsel_u32(svcmpeq_n_u32(p, size, 0x7f), svdup_u32(0x7e00), half);
    return svmul_n_f32_x(p, widen_f16(p, half), 0x1p8F);
}

/* `value` rounded to a float with `fraction` bits. Below `least`, the smallest normal number, it is
 * rounded to steps by the adder: those of `steps`, whose last bit is one step. */
INLINE svuint32_t rounded(svbool_t p, svuint32_t size, int fraction, float least, float steps)
{
    const uint32_t by = 23 - (uint32_t)fraction, half = (1U << (by - 1)) - 1;
    svuint32_t least_bits = svreinterpret_u32_f32(svdup_f32(least));
    svuint32_t odd = svand_n_u32_x(p, svlsr_n_u32_x(p, size, by), 1);
    svuint32_t normal = svsub_u32_x(p, size, svsub_n_u32_x(p, least_bits, 1U << 23));
    normal = svlsr_n_u32_x(p, svadd_u32_x(p, svadd_n_u32_x(p, normal, half), odd), by);
    svfloat32_t small = svadd_n_f32_x(p, svreinterpret_f32_u32(size), steps);
    svuint32_t steps_bits = svreinterpret_u32_f32(svdup_f32(steps));
    return svsel_u32(svcmplt_u32(p, size, least_bits),
                     svsub_u32_x(p, svreinterpret_u32_f32(small), steps_bits), normal);
}

INLINE svuint32_t with_sign(svbool_t p, svuint32_t byte, svuint32_t bits)
{
    return svorr_u32_x(p, byte, svand_n_u32_x(p, svlsr_n_u32_x(p, bits, 24), 0x80));
}

INLINE svuint32_t narrow_f8e5m2(svbool_t p, svfloat32_t value)
{
    svuint32_t bits = svreinterpret_u32_f32(value), size = svand_n_u32_x(p, bits, 0x7fffffff);
    svuint32_t byte = rounded(p, size, 2, 0x1p-14F, 0x1p7F);
    byte = svsel_u32(svcmpge_n_u32(p, size, 0x47700000), svdup_u32(0x7c), byte);
    byte = svsel_u32(svcmpgt_n_u32(p, size, 0x7f800000), svdup_u32(0x7f), byte);
    return with_sign(p, byte, bits);
}

INLINE svuint32_t narrow_f8e4m3(svbool_t p, svfloat32_t value)
{
    svuint32_t bits = svreinterpret_u32_f32(value), size = svand_n_u32_x(p, bits, 0x7fffffff);
    svuint32_t byte = rounded(p, size, 3, 0x1p-6F, 0x1p14F);
    byte = svsel_u32(svcmpgt_n_u32(p, size, 0x43e80000), svdup_u32(0x7f), byte);
    return with_sign(p, byte, bits);
}

#define NARROW(type, element, read, write)                                                         \
    INLINE svfloat32_t load_wide_##type(svbool_t p, const void *from, uint64_t i)                  \
    {                                                                                              \
        return widen_##type(p, read(p, (const element *)from + i));                                \
    }                                                                                              \
    INLINE void store_wide_##type(svbool_t p, void *to, uint64_t i, svfloat32_t value,             \
                                  bool stream)                                                     \
    {                                                                                              \
        write(p, (element *)to + i, narrow_##type(p, value));                                      \
    }

NARROW(f16, uint16_t, svld1uh_u32, svst1h_u32)
NARROW(bf16, uint16_t, svld1uh_u32, svst1h_u32)
NARROW(f8e4m3, uint8_t, svld1ub_u32, svst1b_u32)
NARROW(f8e5m2, uint8_t, svld1ub_u32, svst1b_u32)

/* -- what comes after the last source ---------------------------------------------------------- */

#define NO_FINISH(p, value, divisor) (value)

INLINE svfloat32_t divide_f32(svbool_t p, svfloat32_t sum, uint32_t divisor)
{
    return divisor ? svdiv_n_f32_x(p, sum, (float)divisor) : sum;
}

INLINE svfloat64_t divide_f64(svbool_t p, svfloat64_t sum, uint32_t divisor)
{
    return divisor ? svdiv_n_f64_x(p, sum, (double)divisor) : sum;
}

/* -- the order of patterns without an FMIN ----------------------------------------------------- */

#define ORDERED(type, lane, v_call, top, nans)                                                     \
    INLINE v_call flip_##type(svbool_t p, v_call x)                                                \
    {                                                                                              \
        return sveor_n_##lane##_m(svcmplt_n_##lane(p, x, 0), x, top);                              \
    }                                                                                              \
    INLINE v_call load_least_##type(svbool_t p, const void *from, uint64_t i)                      \
    {                                                                                              \
        return svadd_n_##lane##_x(p, flip_##type(p, load_##lane(p, from, i)), nans);               \
    }                                                                                              \
    INLINE v_call load_most_##type(svbool_t p, const void *from, uint64_t i)                       \
    {                                                                                              \
        return svsub_n_##lane##_x(p, flip_##type(p, load_##lane(p, from, i)), nans);               \
    }                                                                                              \
    INLINE v_call finish_least_##type(svbool_t p, v_call x, uint32_t divisor)                      \
    {                                                                                              \
        return flip_##type(p, svsub_n_##lane##_x(p, x, nans));                                     \
    }                                                                                              \
    INLINE v_call finish_most_##type(svbool_t p, v_call x, uint32_t divisor)                       \
    {                                                                                              \
        return flip_##type(p, svadd_n_##lane##_x(p, x, nans));                                     \
    }

ORDERED(bf16, s16, svint16_t, 0x7fff, 0x7f)
ORDERED(f8e4m3, s8, svint8_t, 0x7f, 1)
ORDERED(f8e5m2, s8, svint8_t, 0x7f, 3)

/* -- one line per type ------------------------------------------------------------------------- */

#define SUM_AND_PROD(type, v_call, lanes, width, f, load, finish, store)                           \
    FOLD(type##_sum, 1, v_call, lanes, width, load, svadd_##f##_x, finish, store)                  \
    FOLD(type##_prod, 1, v_call, lanes, width, load, svmul_##f##_x, NO_FINISH, store)

#define MIN_AND_MAX(type, rounds, v_call, lanes, width, f)                                         \
    FOLD(type##_min, rounds, v_call, lanes, width, load_##f, svmin_##f##_x, NO_FINISH, store_##f)  \
    FOLD(type##_max, rounds, v_call, lanes, width, load_##f, svmax_##f##_x, NO_FINISH, store_##f)

#define WIDENED(type)                                                                              \
    SUM_AND_PROD(type, svfloat32_t, w, 32, f32, load_wide_##type, divide_f32, store_wide_##type)

#define MIN_AND_MAX_IN_ORDER(type, v_call, lanes, width, f)                                        \
    FOLD(type##_min, 0, v_call, lanes, width, load_least_##type, svmin_##f##_x,                    \
         finish_least_##type, store_##f)                                                           \
    FOLD(type##_max, 0, v_call, lanes, width, load_most_##type, svmax_##f##_x, finish_most_##type, \
         store_##f)

static gyre_fold average[GYRE_TYPE_COUNT]; /* of the set before */

#define INTEGER(type, id, v_call, lanes, width, f)                                                 \
    MIN_AND_MAX(type, 0, v_call, lanes, width, f)                                                  \
    static void type##_sum(const struct gyre_fold_task *task, void *native_queue)                  \
    {                                                                                              \
        (task->divisor ? average[id] : add_##width)(task, native_queue);                           \
    }

#define WIDTH(v_call, lanes, width, f)                                                             \
    FOLD(add_##width, 0, v_call, lanes, width, load_##f, svadd_##f##_x, NO_FINISH, store_##f)      \
    FOLD(prod_##width, 0, v_call, lanes, width, load_##f, svmul_##f##_x, NO_FINISH, store_##f)     \
    FOLD(and_##width, 0, v_call, lanes, width, load_##f, svand_##f##_x, NO_FINISH, store_##f)      \
    FOLD(or_##width, 0, v_call, lanes, width, load_##f, svorr_##f##_x, NO_FINISH, store_##f)       \
    FOLD(xor_##width, 0, v_call, lanes, width, load_##f, sveor_##f##_x, NO_FINISH, store_##f)

/* clang-format off */
SUM_AND_PROD(f32, svfloat32_t, w, 32, f32, load_f32, divide_f32, store_f32)
SUM_AND_PROD(f64, svfloat64_t, d, 64, f64, load_f64, divide_f64, store_f64)
WIDENED(f16)
WIDENED(bf16)
WIDENED(f8e4m3)
WIDENED(f8e5m2)
MIN_AND_MAX(f32, 1, svfloat32_t, w, 32, f32)
MIN_AND_MAX(f64, 1, svfloat64_t, d, 64, f64)
MIN_AND_MAX(f16, 1, svfloat16_t, h, 16, f16)
MIN_AND_MAX_IN_ORDER(bf16,   svint16_t, h, 16, s16)
MIN_AND_MAX_IN_ORDER(f8e4m3, svint8_t,  b, 8,  s8)
MIN_AND_MAX_IN_ORDER(f8e5m2, svint8_t,  b, 8,  s8)
WIDTH(svuint8_t,  b, 8,  u8)
WIDTH(svuint16_t, h, 16, u16)
WIDTH(svuint32_t, w, 32, u32)
WIDTH(svuint64_t, d, 64, u64)
INTEGER(i8,  GYRE_I8,  svint8_t,   b, 8,  s8)
INTEGER(u8,  GYRE_U8,  svuint8_t,  b, 8,  u8)
INTEGER(i16, GYRE_I16, svint16_t,  h, 16, s16)
INTEGER(u16, GYRE_U16, svuint16_t, h, 16, u16)
INTEGER(i32, GYRE_I32, svint32_t,  w, 32, s32)
INTEGER(u32, GYRE_U32, svuint32_t, w, 32, u32)
INTEGER(i64, GYRE_I64, svint64_t,  d, 64, s64)
INTEGER(u64, GYRE_U64, svuint64_t, d, 64, u64)
/* clang-format on */

static const gyre_fold folds[GYRE_TYPE_COUNT][GYRE_OP_COUNT] = GYRE_FOLDS;

void gyre_reduce_sve_init(struct gyre_reduce_table *table)
{
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        if (table->fold[type][GYRE_AVG] != folds[type][GYRE_AVG])
            average[type] = table->fold[type][GYRE_AVG];
        for (int op = 0; op < GYRE_OP_COUNT; op++) {
            table->fold[type][op] = folds[type][op];
            table->variant[type][op] = "sve";
        }
    }
}
