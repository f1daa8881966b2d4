/* Every reduction kernel against the scalar reference, and how fast each of them is.
 *
 * A trial is one task with everything about it drawn from a seed: counts, sources, destinations,
 * alignment, in place or not. It runs on two arenas that start with equal bytes, by the reference
 * on one and by the variant on the other; afterwards the arenas must be equal in every byte, so
 * results, sources and the guard bytes around them are checked by one comparison. Only a NaN may
 * have another payload.
 *
 *     arena  |guard| source 0 |guard| source 1 | … |guard| destination 0 |guard| … |guard|
 *                    ↑ shifted by 0 … 15 bytes
 *
 * `check_reduce --bench` times the same calls instead. */
#include "base/clock.h"
#include "base/rng.h"
#include "collectives/kernels/float_mode.h"
#include "collectives/kernels/half.h"
#include "collectives/kernels/reduce.h"

#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SOURCES_MOST      9
#define DESTINATIONS_MOST 4
#define SPANS             (SOURCES_MOST + DESTINATIONS_MOST)
#define COUNT_MOST        8193
#define GUARD             64
#define SPAN_ROOM         (COUNT_MOST * 8 + 16 + 2 * GUARD)
#define ARENA_BYTES       (SPANS * SPAN_ROOM)

static const char *const type_names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8"};
static const char *const op_names[] = {"sum", "avg", "min", "max", "prod"};

static char *arena_of_reference, *arena_of_variant;
static struct gyre_reduce_table reference;

struct trial {
    int type, op;
    uint64_t count;
    uint32_t sources, destinations, divisor;
    int in_place; /* the source that destination 0 is, or -1 */
    bool stream;
    unsigned shift[SPANS];
    uint64_t seed;
};

/* The table as it stands once variant `v` has been put over all slower ones. */
static struct gyre_reduce_table table_up_to(int v)
{
    struct gyre_reduce_table table = {0};
    for (int i = 0; i <= v; i++)
        if (gyre_reduce_variants[i].supported())
            gyre_reduce_variants[i].init(&table);
    return table;
}

/* -- inputs ------------------------------------------------------------------------------------ */

#define ARRAY(lane, ...)                                                                           \
    {                                                                                              \
        (const lane[]){__VA_ARGS__}, sizeof((const lane[]){__VA_ARGS__}) / sizeof(lane)            \
    }

/* Zeros, units, infinities, NaNs of both signs and kinds, largest, smallest and subnormal. */
static const struct {
    const void *patterns;
    size_t count;
} extremes[GYRE_TYPE_COUNT] = {
    [GYRE_F32] = ARRAY(uint32_t, 0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                       0x7fc00000, 0xffc00001, 0x7f800001, 0xff800001, 0x7f7fffff, 0xff7fffff,
                       0x00800000, 0x80800000, 0x007fffff, 0x00000001, 0x80000001, 0x7fffffff),
    [GYRE_F64] =
        ARRAY(uint64_t, 0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
              0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000001,
              0x7ff0000000000001, 0xfff0000000000001, 0x7fefffffffffffff, 0xffefffffffffffff,
              0x0010000000000000, 0x000fffffffffffff, 1, 0x8000000000000001),
    [GYRE_F16] = ARRAY(uint16_t, 0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01,
                       0xfc01, 0x7bff, 0xfbff, 0x0400, 0x8400, 0x03ff, 0x0001, 0x8001, 0x7fff),
    [GYRE_BF16] = ARRAY(uint16_t, 0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81,
                        0xff81, 0x7f7f, 0xff7f, 0x0080, 0x8080, 0x007f, 0x0001, 0x8001, 0x7fff),
    [GYRE_I32] =
        ARRAY(int32_t, 0, 1, -1, 7, -7, INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1),
    [GYRE_I64] = ARRAY(int64_t, 0, 1, -1, 7, -7, INT64_MAX, INT64_MIN, INT32_MIN, INT64_MIN + 1),
    [GYRE_U8] = ARRAY(uint8_t, 0, 1, 2, 127, 128, 254, 255),
};

/* A number of ordinary size: sums of these round, carry and cancel. */
static uint64_t ordinary(int type, uint64_t random)
{
    float small = (float)((int64_t)(random >> 40) - (1 << 23)) / (float)(1U << (random & 31));
    double wide = small + (double)(random & 0xffff) * 0x1p-50;
    uint64_t bits = random >> 8;
    switch (type) {
    case GYRE_F32:
        return gyre_bits_of_f32(small);
    case GYRE_F64:
        memcpy(&bits, &wide, sizeof bits);
        return bits;
    case GYRE_F16:
        return gyre_f16_of_f32(small / 128);
    case GYRE_BF16:
        return gyre_bf16_of_f32(small);
    default:
        return bits;
    }
}

/* One in 16 is extreme, three are any pattern at all, the others ordinary. */
static void fill_elements(struct gyre_rng *rng, int type, char *at, uint64_t count)
{
    size_t size = gyre_type_size((enum gyre_type)type);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = gyre_rng_next(rng), bits = random >> 4;
        const void *from = &bits;
        if (random % 16 == 0)
            from = (const char *)extremes[type].patterns + bits % extremes[type].count * size;
        else if (random % 16 > 3)
            bits = ordinary(type, random);
        memcpy(at + i * size, from, size);
    }
}

/* -- one trial --------------------------------------------------------------------------------- */

static char *span_at(char *arena, const struct trial *trial, uint32_t span)
{
    return arena + (size_t)span * SPAN_ROOM + GUARD + trial->shift[span];
}

static void run_trial(char *arena, const struct trial *trial, gyre_fold fold)
{
    const void *source[SOURCES_MOST];
    void *destination[DESTINATIONS_MOST];
    for (uint32_t s = 0; s < trial->sources; s++)
        source[s] = span_at(arena, trial, s);
    for (uint32_t d = 0; d < trial->destinations; d++)
        destination[d] = span_at(arena, trial, SOURCES_MOST + d);
    if (trial->in_place >= 0)
        destination[0] = span_at(arena, trial, (uint32_t)trial->in_place);
    struct gyre_fold_task task = {
        .destination = destination,
        .source = source,
        .destinations = trial->destinations,
        .sources = trial->sources,
        .count = trial->count,
        .divisor = trial->divisor,
        .stream = trial->stream,
    };
    fold(&task, NULL);
}

static void fill_arena(const struct trial *trial)
{
    struct gyre_rng rng;
    size_t used = (size_t)trial->count * 8 + 16 + 2 * GUARD;
    gyre_rng_seed(&rng, trial->seed);
    for (uint32_t s = 0; s < SPANS; s++)
        memset(arena_of_reference + (size_t)s * SPAN_ROOM, 0xa5, used);
    for (uint32_t s = 0; s < trial->sources; s++)
        fill_elements(&rng, trial->type, span_at(arena_of_reference, trial, s), trial->count);
    for (uint32_t s = 0; s < SPANS; s++)
        memcpy(arena_of_variant + (size_t)s * SPAN_ROOM, arena_of_reference + (size_t)s * SPAN_ROOM,
               used);
}

static bool is_nan(int type, uint64_t bits)
{
    switch (type) {
    case GYRE_F32:
        return (bits & 0x7fffffff) > 0x7f800000;
    case GYRE_F64:
        return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000);
    case GYRE_F16:
        return (bits & 0x7fff) > 0x7c00;
    case GYRE_BF16:
        return (bits & 0x7fff) > 0x7f80;
    default:
        return false;
    }
}

static uint64_t bits_at(const char *at, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    return bits;
}

static void fail_trial(const struct trial *trial, const char *variant, uint32_t span, uint64_t i,
                       uint64_t wanted, uint64_t found)
{
    fail_msg("%s %s %s: element %lld of span %u is %#llx, the reference has %#llx "
             "(count %llu, %u sources, %u destinations, divisor %u, in place %d, stream %d, "
             "shifts %u %u | %u %u, seed %llu)",
             variant, type_names[trial->type], op_names[trial->op], (long long)i, span,
             (unsigned long long)found, (unsigned long long)wanted,
             (unsigned long long)trial->count, trial->sources, trial->destinations, trial->divisor,
             trial->in_place, trial->stream, trial->shift[0], trial->shift[1],
             trial->shift[SOURCES_MOST], trial->shift[SOURCES_MOST + 1],
             (unsigned long long)trial->seed);
}

/* Equal outside the elements byte by byte, inside but for payloads of NaNs. */
static void compare_span(const struct trial *trial, const char *variant, uint32_t span)
{
    size_t used = (size_t)trial->count * 8 + 16 + 2 * GUARD;
    const char *a = arena_of_reference + (size_t)span * SPAN_ROOM;
    const char *b = arena_of_variant + (size_t)span * SPAN_ROOM;
    if (memcmp(a, b, used) == 0)
        return;
    size_t size = gyre_type_size((enum gyre_type)trial->type), at = GUARD + trial->shift[span];
    for (uint64_t i = 0; i < trial->count; i++, at += size) {
        uint64_t wanted = bits_at(a + at, size), found = bits_at(b + at, size);
        if (wanted != found && !(is_nan(trial->type, wanted) && is_nan(trial->type, found)))
            fail_trial(trial, variant, span, i, wanted, found);
    }
    size_t front = GUARD + trial->shift[span];
    if (memcmp(a, b, front) != 0 || memcmp(a + at, b + at, used - at) != 0)
        fail_trial(trial, variant, span, UINT64_MAX, 0xa5, 0);
}

static void check_trial(const struct trial *trial, const struct gyre_reduce_table *table)
{
    const char *variant = table->variant[trial->type][trial->op];
    fill_arena(trial);
    run_trial(arena_of_reference, trial, reference.fold[trial->type][trial->op]);
    run_trial(arena_of_variant, trial, table->fold[trial->type][trial->op]);
    for (uint32_t span = 0; span < SPANS; span++)
        compare_span(trial, variant, span);
}

static struct trial random_trial(struct gyre_rng *rng, int type, int op, uint64_t count)
{
    static const uint32_t divisors[] = {0, 1, 2, 3, 7, 128, 255, 300, 100000, UINT32_MAX};
    struct trial trial = {.type = type, .op = op, .count = count, .in_place = -1};
    trial.sources = 1 + (uint32_t)gyre_rng_below(rng, SOURCES_MOST);
    trial.destinations = 1 + (uint32_t)gyre_rng_below(rng, DESTINATIONS_MOST);
    if (gyre_rng_below(rng, 2))
        trial.sources = 2, trial.destinations = 1 + (trial.destinations & 1);
    if (op == GYRE_AVG)
        trial.divisor = divisors[gyre_rng_below(rng, sizeof divisors / sizeof divisors[0])];
    if (gyre_rng_below(rng, 3) == 0)
        trial.in_place = (int)gyre_rng_below(rng, trial.sources);
    trial.stream = gyre_rng_below(rng, 3) == 0;
    unsigned whole = (unsigned)gyre_type_size((enum gyre_type)type);
    uint64_t manner = gyre_rng_below(rng, 4); /* all aligned, by elements, equally odd, any */
    unsigned equal = (unsigned)gyre_rng_below(rng, 16);
    for (int s = 0; s < SPANS; s++) {
        unsigned any = (unsigned)gyre_rng_below(rng, 16);
        trial.shift[s] = manner == 0   ? 0
                         : manner == 1 ? any / whole * whole
                         : manner == 2 ? equal
                                       : any;
    }
    trial.seed = gyre_rng_next(rng);
    return trial;
}

/* Calls `check` for every supported variant but the reference itself. */
static void for_each_variant(void (*check)(const struct gyre_reduce_table *table, int type, int op))
{
    for (int v = 1; gyre_reduce_variants[v].name; v++) {
        if (!gyre_reduce_variants[v].supported()) {
            print_message("skipped: this CPU has no %s\n", gyre_reduce_variants[v].name);
            continue;
        }
        struct gyre_reduce_table table = table_up_to(v);
        for (int type = 0; type < GYRE_TYPE_COUNT; type++)
            for (int op = 0; op < GYRE_OP_COUNT; op++)
                check(&table, type, op);
    }
}

/* -- checks of the variants -------------------------------------------------------------------- */

static void check_small_counts(const struct gyre_reduce_table *table, int type, int op)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, (uint64_t)(type * 10 + op));
    for (uint64_t count = 0; count <= 67; count++) {
        for (int repeat = 0; repeat < 6; repeat++) {
            struct trial trial = random_trial(&rng, type, op, count);
            check_trial(&trial, table);
        }
    }
}

static void check_powers_of_two(const struct gyre_reduce_table *table, int type, int op)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, (uint64_t)(100 + type * 10 + op));
    for (uint64_t power = 128; power < COUNT_MOST; power *= 2) {
        for (int repeat = 0; repeat < 6; repeat++) {
            struct trial trial = random_trial(&rng, type, op, power - 1 + (uint64_t)repeat % 3);
            check_trial(&trial, table);
        }
    }
}

/* Every pair of misalignments, of the sources and of the destinations; 150 is two vectors of bytes
 * and more, and several times four columns of the other types. */
static void check_misaligned(const struct gyre_reduce_table *table, int type, int op)
{
    for (unsigned pair = 0; pair < 256; pair++) {
        struct trial trial = {.type = type, .op = op, .count = 150, .sources = 3};
        trial.destinations = 2;
        trial.in_place = -1;
        trial.stream = pair & 1;
        trial.seed = pair;
        for (int s = 0; s < SPANS; s++)
            trial.shift[s] = s < SOURCES_MOST ? pair / 16 : pair % 16;
        check_trial(&trial, table);
    }
}

static void check_every_shape(const struct gyre_reduce_table *table, int type, int op)
{
    for (unsigned shape = 0; shape < SOURCES_MOST * DESTINATIONS_MOST; shape++) {
        struct trial trial = {.type = type, .op = op, .count = 293, .seed = shape};
        trial.sources = 1 + shape % SOURCES_MOST;
        trial.destinations = 1 + shape / SOURCES_MOST;
        for (trial.in_place = -1; trial.in_place < (int)trial.sources; trial.in_place += 3)
            check_trial(&trial, table);
    }
}

static void test_small_counts(void **state)
{
    for_each_variant(check_small_counts);
}

static void test_powers_of_two(void **state)
{
    for_each_variant(check_powers_of_two);
}

static void test_misaligned(void **state)
{
    for_each_variant(check_misaligned);
}

static void test_every_shape(void **state)
{
    for_each_variant(check_every_shape);
}

/* -- the caller's floating-point modes --------------------------------------------------------- */

/* Upwards, and on x86 flush-to-zero and denormals-are-zero too. */
static gyre_float_mode strange_mode(void)
{
#if defined(__x86_64__)
    return GYRE_FLOAT_MODE_DEFAULT | 0x8000 | 0x4000 | 0x0040;
#else
    return GYRE_FLOAT_MODE_DEFAULT;
#endif
}

static void check_strange_mode(const struct gyre_reduce_table *table, int type, int op)
{
    struct gyre_rng rng;
    gyre_float_mode usual = gyre_float_mode_read();
    gyre_rng_seed(&rng, (uint64_t)(200 + type * 10 + op));
    for (int repeat = 0; repeat < 40; repeat++) {
        struct trial trial = random_trial(&rng, type, op, 1 + (uint64_t)repeat * 11);
        fill_arena(&trial);
        run_trial(arena_of_reference, &trial, reference.fold[type][op]);
        gyre_float_mode_write(strange_mode());
        run_trial(arena_of_variant, &trial, table->fold[type][op]);
        gyre_float_mode after = gyre_float_mode_read();
        gyre_float_mode_write(usual);
        assert_int_equal(after & ~GYRE_FLOAT_MODE_STICKY, strange_mode());
        for (uint32_t span = 0; span < SPANS; span++)
            compare_span(&trial, table->variant[type][op], span);
    }
}

static void test_strange_mode(void **state)
{
    for_each_variant(check_strange_mode);
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        for (int op = 0; op < GYRE_OP_COUNT; op++)
            check_strange_mode(&reference, type, op);
}

/* -- the reference itself, against results worked out by hand ---------------------------------- */

static uint64_t fold_patterns(int type, int op, uint32_t divisor, int sources,
                              const uint64_t *pattern)
{
    const void *source[SOURCES_MOST];
    uint64_t result = 0;
    void *destination = &result;
    for (int s = 0; s < sources; s++)
        source[s] = &pattern[s];
    struct gyre_fold_task task = {&destination, source, 1, (uint32_t)sources, 1, divisor, false};
    reference.fold[type][op](&task, NULL);
    return result;
}

#define PATTERNS(...)                                                                              \
    (int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (uint64_t[])                      \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_reference_of_floats(void **state)
{
    /* (1 + 2^-24) + 2^-24 is 1 in source order: both additions are ties, to even */
    assert_int_equal(
        fold_patterns(GYRE_F32, GYRE_SUM, 0, PATTERNS(0x3f800000, 0x33800000, 0x33800000)),
        0x3f800000);
    assert_int_equal(
        fold_patterns(GYRE_F32, GYRE_AVG, 3, PATTERNS(0x3f800000, 0x40000000, 0x40400000)),
        0x40000000);
    assert_int_equal(fold_patterns(GYRE_F32, GYRE_PROD, 0, PATTERNS(0x40000000, 0xc0400000)),
                     0xc0c00000);
    assert_int_equal(fold_patterns(GYRE_F32, GYRE_MIN, 0, PATTERNS(0, 0x80000000)), 0x80000000);
    assert_int_equal(fold_patterns(GYRE_F32, GYRE_MAX, 0, PATTERNS(0x80000000, 0)), 0);
    assert_int_equal(fold_patterns(GYRE_F32, GYRE_MAX, 0, PATTERNS(0xff800000, 0xc0000000)),
                     0xc0000000);
    assert_true(
        is_nan(GYRE_F32, fold_patterns(GYRE_F32, GYRE_MAX, 0, PATTERNS(0x7f800000, 0xffc00000))));
    assert_true(is_nan(GYRE_F64, fold_patterns(GYRE_F64, GYRE_MIN, 0,
                                               PATTERNS(0x7ff8000000000000, 0xfff0000000000000))));
    /* f16: 2048 + 1 + 1 is 2050 in f32, and would stay 2048 if it were rounded at each step */
    assert_int_equal(fold_patterns(GYRE_F16, GYRE_SUM, 0, PATTERNS(0x6800, 0x3c00, 0x3c00)),
                     0x6801);
    /* 65504 + 16 is halfway to 65536: even, hence infinity; + 8 rounds back */
    assert_int_equal(fold_patterns(GYRE_F16, GYRE_SUM, 0, PATTERNS(0x7bff, 0x4c00)), 0x7c00);
    assert_int_equal(fold_patterns(GYRE_F16, GYRE_SUM, 0, PATTERNS(0x7bff, 0x4800)), 0x7bff);
    /* subnormal: 2^-24 / 2 is a tie with zero */
    assert_int_equal(fold_patterns(GYRE_F16, GYRE_AVG, 2, PATTERNS(1)), 0);
    assert_int_equal(fold_patterns(GYRE_F16, GYRE_AVG, 2, PATTERNS(3)), 2);
    assert_int_equal(fold_patterns(GYRE_BF16, GYRE_SUM, 0, PATTERNS(0x4380, 0x3f80, 0x3f80)),
                     0x4381);
    assert_int_equal(fold_patterns(GYRE_BF16, GYRE_SUM, 0, PATTERNS(0x4380, 0x3f80)), 0x4380);
}

static void test_reference_of_integers(void **state)
{
    assert_int_equal(fold_patterns(GYRE_I32, GYRE_SUM, 0, PATTERNS(INT32_MAX, 1)), 0x80000000);
    assert_int_equal((int32_t)fold_patterns(GYRE_I32, GYRE_AVG, 2, PATTERNS((uint32_t)-7)), -3);
    assert_int_equal((int64_t)fold_patterns(GYRE_I64, GYRE_AVG, 2, PATTERNS((uint64_t)-7, 0)), -3);
    assert_int_equal(fold_patterns(GYRE_I64, GYRE_MIN, 0, PATTERNS(1, (uint64_t)INT64_MIN)),
                     INT64_MIN);
    assert_int_equal(fold_patterns(GYRE_I64, GYRE_PROD, 0, PATTERNS(UINT64_C(1) << 63, 3)),
                     UINT64_C(1) << 63);
    assert_int_equal(fold_patterns(GYRE_U8, GYRE_SUM, 0, PATTERNS(255, 2)), 1);
    assert_int_equal(fold_patterns(GYRE_U8, GYRE_AVG, 2, PATTERNS(255, 2)), 0);
    assert_int_equal(fold_patterns(GYRE_U8, GYRE_AVG, 300, PATTERNS(255)), 0);
    assert_int_equal(fold_patterns(GYRE_U8, GYRE_MAX, 0, PATTERNS(127, 128)), 128);
}

/* A half is read and written back unchanged, and half a step away rounds to the even neighbour. */
static void test_halves(void **state)
{
    for (uint32_t half = 0; half < 0x7c00; half++) {
        float value = gyre_f32_of_f16((uint16_t)half);
        float next = half == 0x7bff ? 65536 : gyre_f32_of_f16((uint16_t)(half + 1));
        assert_int_equal(gyre_f16_of_f32(value), half);
        assert_int_equal(gyre_f16_of_f32(-value), half | 0x8000);
        assert_int_equal(gyre_f16_of_f32((value + next) / 2), half + (half & 1));
    }
    for (uint32_t half = 0; half < 0x7f80; half++) {
        uint32_t bits = half << 16;
        assert_int_equal(gyre_bf16_of_f32(gyre_f32_of_bf16((uint16_t)half)), half);
        assert_int_equal(gyre_bf16_of_f32(gyre_f32_of_bits(bits + 0x8000)), half + (half & 1));
        assert_int_equal(gyre_bf16_of_f32(gyre_f32_of_bits(bits + 0x8001)), half + 1);
    }
    assert_int_equal(gyre_f16_of_f32(gyre_f32_of_bits(0x7fc00000)) & 0x7c00, 0x7c00);
    assert_true(gyre_f32_of_f16(0x0001) == 0x1p-24F);
    assert_true(gyre_f32_of_f16(0x03ff) == 1023 * 0x1p-24F);
}

/* -- which table is used ----------------------------------------------------------------------- */

static void test_table(void **state)
{
    const struct gyre_reduce_table *table = gyre_reduce_table(GYRE_MEMORY_HOST);
    assert_non_null(table);
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        for (int op = 0; op < GYRE_OP_COUNT; op++) {
            assert_non_null(table->fold[type][op]);
            assert_string_equal(table->variant[type][op], "scalar"); /* main() set GYRE_KERNELS */
        }
    }
    assert_null(gyre_reduce_table(GYRE_MEMORY_CUDA));
}

/* -- the bench --------------------------------------------------------------------------------- */

#define BENCH_SPANS 9
#define BENCH_BYTES (UINT64_C(16) << 20)

static double seconds_per_call(gyre_fold fold, const struct gyre_fold_task *task)
{
    uint64_t calls = 1, spent = 0, best = UINT64_MAX;
    for (; spent < 2 * GYRE_MS; calls *= 2) {
        uint64_t start = gyre_now_ns();
        for (uint64_t i = 0; i < calls; i++)
            fold(task, NULL);
        spent = gyre_now_ns() - start;
    }
    calls /= 2;
    for (int repeat = 0; repeat < 5; repeat++) {
        uint64_t start = gyre_now_ns();
        for (uint64_t i = 0; i < calls; i++)
            fold(task, NULL);
        spent = gyre_now_ns() - start;
        best = spent < best ? spent : best;
    }
    return (double)best / (double)calls * 1e-9;
}

/* One line: nanoseconds for 1, 8 and 64 elements, then GB/s read and written at sizes per span. */
static void bench_line(const struct gyre_reduce_table *table, int type, int op, uint32_t sources,
                       uint32_t destinations, bool stream, char *memory)
{
    const void *source[BENCH_SPANS];
    void *destination[BENCH_SPANS];
    for (uint32_t s = 0; s < sources; s++)
        source[s] = memory + s * BENCH_BYTES;
    for (uint32_t d = 0; d < destinations; d++)
        destination[d] = memory + (sources + d) * BENCH_BYTES;
    struct gyre_fold_task task = {destination, source, destinations, sources, 1, 0, stream};
    size_t size = gyre_type_size((enum gyre_type)type);
    printf("%-7s %-4s %-4s %u>%u %s", table->variant[type][op], type_names[type], op_names[op],
           sources, destinations, stream ? "stream" : "      ");
    for (task.count = 1; task.count <= 64; task.count *= 8)
        printf(" %7.1f", seconds_per_call(table->fold[type][op], &task) * 1e9);
    for (uint64_t bytes = 4096; bytes <= BENCH_BYTES; bytes *= 16) {
        task.count = bytes / size;
        double moved = (double)bytes * (sources + destinations);
        printf(" %8.2f", moved / seconds_per_call(table->fold[type][op], &task) * 1e-9);
    }
    printf("\n");
}

static void bench_variant(const struct gyre_reduce_table *table, char *memory)
{
    static const uint32_t shape[][2] = {{2, 1}, {2, 2}, {3, 1}, {4, 1}, {4, 4}, {8, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        bench_line(table, GYRE_F32, GYRE_SUM, shape[i][0], shape[i][1], false, memory);
        bench_line(table, GYRE_F32, GYRE_SUM, shape[i][0], shape[i][1], true, memory);
    }
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        for (int op = 0; op < GYRE_OP_COUNT; op++)
            bench_line(table, type, op, 2, 1, false, memory);
}

static int bench(void)
{
    char *memory = aligned_alloc(4096, BENCH_SPANS * BENCH_BYTES);
    if (!memory)
        return 1;
    memset(memory, 0, BENCH_SPANS * BENCH_BYTES);
    printf("# GB/s = bytes of all sources and destinations; > = sources to destinations\n");
    printf("# variant type op          ns: 1       8      64 GB/s: 4K     64K       1M      16M\n");
    for (int v = 0; gyre_reduce_variants[v].name; v++) {
        struct gyre_reduce_table table = table_up_to(v);
        if (gyre_reduce_variants[v].supported())
            bench_variant(&table, memory);
    }
    free(memory);
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "--bench") == 0)
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_of_floats),
        cmocka_unit_test(test_reference_of_integers),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_small_counts),
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_strange_mode),
        cmocka_unit_test(test_table),
    };
    setenv("GYRE_KERNELS", "scalar", 1);
    reference = table_up_to(0);
    arena_of_reference = malloc(ARENA_BYTES);
    arena_of_variant = malloc(ARENA_BYTES);
    if (!arena_of_reference || !arena_of_variant)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(arena_of_reference);
    free(arena_of_variant);
    return failed;
}
