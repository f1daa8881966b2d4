/* Vectors as long as the processor has them, 16 to 256 bytes: SVE. Compiled with +sve; entered only
 * after the kernel was asked.
 *
 * The loop of reduce_vector.inc keeps vectors in arrays and so needs their length, which the
 * compiler does not know here. A loop of SVE's own is simpler: a predicate says which lanes there
 * still are, no column overlaps another, and every count, down to 1, runs through the same loop.
 *
 *     source     |........|........|........|.....|
 *     predicate   11111111 11111111 11111111 11111000
 *                 └─ first ┘└ second ┘ are folded side by side, to cover an addition's latency
 *
 * Small floats are read into lanes of 32 bits each. FMIN and FMAX give the reference's minimum and
 * maximum: NaN wins, -0 is below +0. The patterns of types without these instructions are put in
 * order as reduce_words.inc explains. Integer averages are left to the set before.
 *
 * Tested by tests/kernel/reduce.c. */
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/reduce_variant.h"

#include <arm_sve.h>

#define INLINE static inline __attribute__((always_inline))

/* -- the loop ---------------------------------------------------------------------------------- */

#define LANES_OF_8  svcntb
#define LANES_OF_16 svcnth
#define LANES_OF_32 svcntw
#define LANES_OF_64 svcntd

/* `width` is the number of bits of a lane. */
#define FOLD(name, rounds, v_call, width, load, combine, finish, store)                            \
    static void name(const struct gyre_fold_task *task, void *native_queue)                        \
    {                                                                                              \
        gyre_float_mode mode = rounds ? gyre_float_mode_enter() : 0;                               \
        const uint64_t step = LANES_OF_##width();                                                  \
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

/* Converts as reduce_words.inc does, through a binary16 that is 2^8 times too small. */
INLINE svfloat32_t widen_f8e4m3(svbool_t p, svuint32_t byte)
{
    svuint32_t size = svand_n_u32_x(p, byte, 0x7f), sign = svand_n_u32_x(p, byte, 0x80);
    svuint32_t half = svorr_u32_x(p, svlsl_n_u32_x(p, size, 7), svlsl_n_u32_x(p, sign, 8));
    half = svsel_u32(svcmpeq_n_u32(p, size, 0x7f), svdup_u32(0x7e00), half);
    return svmul_n_f32_x(p, widen_f16(p, half), 0x1p8F);
}

/* `value` rounded to a float with `fraction` bits. A value below `least`, the smallest normal
 * number, is rounded by the adder to the steps of `steps`, whose last bit is one step. */
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

#define NARROW_8(type)  NARROW(type, uint8_t, svld1ub_u32, svst1b_u32)
#define NARROW_16(type) NARROW(type, uint16_t, svld1uh_u32, svst1h_u32)

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

#define ORDERED(type, bits, last)                                                                  \
    INLINE svint##bits##_t flip_##type(svbool_t p, svint##bits##_t x)                              \
    {                                                                                              \
        return sveor_n_s##bits##_m(svcmplt_n_s##bits(p, x, 0), x, INT##bits##_MAX);                \
    }                                                                                              \
    INLINE svint##bits##_t load_min_##type(svbool_t p, const void *from, uint64_t i)               \
    {                                                                                              \
        return svadd_n_s##bits##_x(p, flip_##type(p, load_s##bits(p, from, i)),                    \
                                   INT##bits##_MAX - last);                                        \
    }                                                                                              \
    INLINE svint##bits##_t load_max_##type(svbool_t p, const void *from, uint64_t i)               \
    {                                                                                              \
        return svsub_n_s##bits##_x(p, flip_##type(p, load_s##bits(p, from, i)),                    \
                                   INT##bits##_MAX - last);                                        \
    }                                                                                              \
    INLINE svint##bits##_t finish_min_##type(svbool_t p, svint##bits##_t x, uint32_t divisor)      \
    {                                                                                              \
        return flip_##type(p, svsub_n_s##bits##_x(p, x, INT##bits##_MAX - last));                  \
    }                                                                                              \
    INLINE svint##bits##_t finish_max_##type(svbool_t p, svint##bits##_t x, uint32_t divisor)      \
    {                                                                                              \
        return flip_##type(p, svadd_n_s##bits##_x(p, x, INT##bits##_MAX - last));                  \
    }

/* -- the words of every type ------------------------------------------------------------------- */

#define WORDS_OF_FLOAT(type, bits, last)
#define WORDS_OF_SMALL_FLOAT(type, bits, last) NARROW_##bits(type) ORDERED(type, bits, last)
#define WORDS_OF_SIGNED(type, bits, last)
#define WORDS_OF_UNSIGNED(type, bits, last)

#define WORDS_OF(ID, type, kind, element, bits, fraction, last) WORDS_OF_##kind(type, bits, last)
GYRE_TYPES(WORDS_OF)

/* -- the folds of each kind of type, by the family of the reduction ---------------------------- */

/* The instruction of each reduction, such as svadd_f32_x. */
#define WORD_OF_sum  svadd
#define WORD_OF_min  svmin
#define WORD_OF_max  svmax
#define WORD_OF_prod svmul
#define WORD_OF_and  svand
#define WORD_OF_or   svorr
#define WORD_OF_xor  sveor

#define WORD(op, lane)         WORD_JOINED(WORD_OF_##op, lane)
#define WORD_JOINED(op, lane)  WORD_OF_LANE(op, lane)
#define WORD_OF_LANE(op, lane) op##_##lane##_x

#define FLOAT_SUM(type, op, ID, bits)                                                              \
    FOLD(type##_##op, 1, svfloat##bits##_t, bits, load_##type, WORD(op, type), divide_##type,      \
         store_##type)
#define FLOAT_AVERAGE(...)
#define FLOAT_ORDER FLOAT_PRODUCT
#define FLOAT_PRODUCT(type, op, ID, bits)                                                          \
    FOLD(type##_##op, 1, svfloat##bits##_t, bits, load_##type, WORD(op, type), NO_FINISH,          \
         store_##type)
#define FLOAT_BITS(...)

#define SMALL_FLOAT_SUM(type, op, ID, bits)                                                        \
    FOLD(type##_##op, 1, svfloat32_t, 32, load_wide_##type, WORD(op, f32), divide_f32,             \
         store_wide_##type)
#define SMALL_FLOAT_AVERAGE(...)
#define SMALL_FLOAT_ORDER(type, op, ID, bits) ORDER_OF_##type(type, op, bits)
#define SMALL_FLOAT_PRODUCT(type, op, ID, bits)                                                    \
    FOLD(type##_##op, 1, svfloat32_t, 32, load_wide_##type, WORD(op, f32), NO_FINISH,              \
         store_wide_##type)
#define SMALL_FLOAT_BITS(...)

/* FMIN and FMAX of f16; the order of patterns for the other types. */
#define ORDER_OF_f16(type, op, bits) FLOAT_PRODUCT(type, op, F16, bits)
#define ORDER_OF_bf16                ORDER_OF_PATTERNS
#define ORDER_OF_f8e4m3              ORDER_OF_PATTERNS
#define ORDER_OF_f8e5m2              ORDER_OF_PATTERNS
#define ORDER_OF_PATTERNS(type, op, bits)                                                          \
    FOLD(type##_##op, 0, svint##bits##_t, bits, load_##op##_##type, WORD(op, s##bits),             \
         finish_##op##_##type, store_s##bits)

static gyre_fold average[GYRE_TYPE_COUNT]; /* the folds of the set before */

#define INTEGER_SUM(type, op, ID, bits)                                                            \
    static void add_##bits(const struct gyre_fold_task *task, void *native_queue);                 \
    static void type##_##op(const struct gyre_fold_task *task, void *native_queue)                 \
    {                                                                                              \
        (task->divisor ? average[GYRE_##ID] : add_##bits)(task, native_queue);                     \
    }

#define SIGNED_SUM INTEGER_SUM
#define SIGNED_AVERAGE(...)
#define SIGNED_ORDER(type, op, ID, bits)                                                           \
    FOLD(type##_##op, 0, svint##bits##_t, bits, load_s##bits, WORD(op, s##bits), NO_FINISH,        \
         store_s##bits)
#define SIGNED_PRODUCT(...)
#define SIGNED_BITS(...)

#define UNSIGNED_SUM(type, op, ID, bits)                                                           \
    INTEGER_SUM(type, op, ID, bits)                                                                \
    UNSIGNED_FOLD(add_##bits, op, bits)
#define UNSIGNED_AVERAGE(...)
#define UNSIGNED_ORDER(type, op, ID, bits) UNSIGNED_FOLD(type##_##op, op, bits)
#define UNSIGNED_PRODUCT                   UNSIGNED_ORDER
#define UNSIGNED_BITS                      UNSIGNED_ORDER
#define UNSIGNED_FOLD(name, op, bits)                                                              \
    FOLD(name, 0, svuint##bits##_t, bits, load_u##bits, WORD(op, u##bits), NO_FINISH, store_u##bits)

#define FOLD_OF(OP, op, family, neutral, result, ID, type, kind, bits)                             \
    kind##_##family(type, op, ID, bits)
#define FOLDS_OF(ID, type, kind, element, bits, ...) GYRE_REDUCTIONS(FOLD_OF, ID, type, kind, bits)
GYRE_TYPES(FOLDS_OF)

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
