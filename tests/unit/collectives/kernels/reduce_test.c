/* The scalar reference of the reduction kernels against results worked out by hand: what
 * kernel/reduce then holds every variant against. */
#include "base/small_floats.h"
#include "collectives/kernels/reduce_cuda.h"
#include "kernel/reduce_trial.h"
#include "rig/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gyre_reduce_table reference;

static uint64_t fold_patterns(int type, int op, uint32_t divisor, int sources,
                              const uint64_t *pattern)
{
    const void *source[SOURCES_MOST];
    uint64_t result = 0;
    void *destination = &result;
    for (int s = 0; s < sources; s++)
        source[s] = &pattern[s];
    struct gyre_fold_task task = {.destination = &destination,
                                  .source = source,
                                  .destinations = 1,
                                  .sources = (uint32_t)sources,
                                  .count = 1,
                                  .divisor = divisor};
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
    assert_true(is_nan_pattern(
        GYRE_F32, fold_patterns(GYRE_F32, GYRE_MAX, 0, PATTERNS(0x7f800000, 0xffc00000))));
    assert_true(
        is_nan_pattern(GYRE_F64, fold_patterns(GYRE_F64, GYRE_MIN, 0,
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
    assert_int_equal(fold_patterns(GYRE_I8, GYRE_MAX, 0, PATTERNS(127, 128)), 127);
    assert_int_equal(fold_patterns(GYRE_I8, GYRE_AVG, 2, PATTERNS(0xf9)), 0xfd);
    assert_int_equal(fold_patterns(GYRE_I8, GYRE_AVG, 2, PATTERNS(127, 2)), 0xc1);
    assert_int_equal(fold_patterns(GYRE_I16, GYRE_MIN, 0, PATTERNS(0x7fff, 0x8000)), 0x8000);
    assert_int_equal(fold_patterns(GYRE_I16, GYRE_AVG, 3, PATTERNS(0xfff9)), 0xfffe);
    assert_int_equal(fold_patterns(GYRE_U16, GYRE_PROD, 0, PATTERNS(0xffff, 0xffff)), 1);
    assert_int_equal(fold_patterns(GYRE_U16, GYRE_AVG, 3, PATTERNS(0xfff9)), 0x5553);
    assert_int_equal(fold_patterns(GYRE_U32, GYRE_MAX, 0, PATTERNS(1, 0x80000000)), 0x80000000);
    assert_int_equal(fold_patterns(GYRE_U32, GYRE_AVG, 2, PATTERNS(0xfffffff9)), 0x7ffffffc);
    assert_int_equal(fold_patterns(GYRE_U64, GYRE_MAX, 0, PATTERNS(1, UINT64_MAX)), UINT64_MAX);
    assert_int_equal(fold_patterns(GYRE_U64, GYRE_AVG, 2, PATTERNS(UINT64_MAX)), INT64_MAX);
}

static void test_reference_of_bits(void **state)
{
    static const int types[] = {GYRE_I32, GYRE_I64, GYRE_U8,  GYRE_I8,
                                GYRE_U32, GYRE_U64, GYRE_I16, GYRE_U16};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fold_patterns(types[i], GYRE_AND, 0, PATTERNS(0x6e, 0x3c, 0x7f)), 0x2c);
        assert_int_equal(fold_patterns(types[i], GYRE_OR, 0, PATTERNS(0x41, 0x14, 0x10)), 0x55);
        assert_int_equal(fold_patterns(types[i], GYRE_XOR, 0, PATTERNS(0x71, 0x14, 0x10)), 0x75);
    }
    assert_false(gyre_op_suits(GYRE_F32, GYRE_AND));
    assert_false(gyre_op_suits(GYRE_F8E5M2, GYRE_XOR));
    assert_false(gyre_op_suits(GYRE_I32, (enum gyre_op)GYRE_OP_COUNT));
    assert_false(gyre_op_suits((enum gyre_type)GYRE_TYPE_COUNT, GYRE_SUM));
    assert_false(gyre_op_suits((enum gyre_type)(-1), GYRE_SUM));
    assert_true(gyre_op_suits(GYRE_BF16, GYRE_PROD));
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

/* As test_halves, for all 256 patterns of both kinds; the limits are those of PyTorch. */
static void test_bytes_e4m3(void **state)
{
    for (uint32_t byte = 0; byte < 0x7e; byte++) {
        float value = gyre_f32_of_f8e4m3((uint8_t)byte);
        float next = gyre_f32_of_f8e4m3((uint8_t)(byte + 1)), middle = (value + next) / 2;
        assert_true(next > value);
        assert_int_equal(gyre_f8e4m3_of_f32(value), byte);
        assert_int_equal(gyre_f8e4m3_of_f32(-value), byte | 0x80);
        assert_int_equal(gyre_f8e4m3_of_f32(middle), byte + (byte & 1));
        assert_int_equal(gyre_f8e4m3_of_f32(nextafterf(middle, 1000)), byte + 1);
        assert_int_equal(gyre_f8e4m3_of_f32(nextafterf(middle, 0)), byte);
    }
    assert_true(gyre_f32_of_f8e4m3(0x01) == 0x1p-9F && gyre_f32_of_f8e4m3(0x08) == 0x1p-6F);
    assert_true(gyre_f32_of_f8e4m3(0x38) == 1 && gyre_f32_of_f8e4m3(0xfe) == -448);
    assert_true(isnan(gyre_f32_of_f8e4m3(0x7f)) && isnan(gyre_f32_of_f8e4m3(0xff)));
    assert_int_equal(gyre_f8e4m3_of_f32(464), 0x7e);
    assert_int_equal(gyre_f8e4m3_of_f32(nextafterf(464, 465)), 0x7f);
    assert_int_equal(gyre_f8e4m3_of_f32(-INFINITY), 0xff);
    assert_int_equal(gyre_f8e4m3_of_f32(NAN) & 0x7f, 0x7f);
}

static void test_bytes_e5m2(void **state)
{
    for (uint32_t byte = 0; byte < 0x7c; byte++) {
        float value = gyre_f32_of_f8e5m2((uint8_t)byte);
        float next = byte == 0x7b ? 65536 : gyre_f32_of_f8e5m2((uint8_t)(byte + 1));
        float middle = (value + next) / 2;
        assert_true(next > value);
        assert_int_equal(gyre_f8e5m2_of_f32(value), byte);
        assert_int_equal(gyre_f8e5m2_of_f32(-value), byte | 0x80);
        assert_int_equal(gyre_f8e5m2_of_f32(middle), byte + (byte & 1));
        assert_int_equal(gyre_f8e5m2_of_f32(nextafterf(middle, 1e6F)), byte + 1);
        assert_int_equal(gyre_f8e5m2_of_f32(nextafterf(middle, 0)), byte);
    }
    assert_true(gyre_f32_of_f8e5m2(0x01) == 0x1p-16F && gyre_f32_of_f8e5m2(0x04) == 0x1p-14F);
    assert_true(gyre_f32_of_f8e5m2(0x3c) == 1 && gyre_f32_of_f8e5m2(0xfb) == -57344);
    assert_true(isinf(gyre_f32_of_f8e5m2(0x7c)) && isnan(gyre_f32_of_f8e5m2(0xfd)));
    assert_int_equal(gyre_f8e5m2_of_f32(1e9F), 0x7c);
    assert_true(is_nan_pattern(GYRE_F8E5M2, gyre_f8e5m2_of_f32(NAN)));
}

static void test_reference_of_bytes(void **state)
{
    /* e4m3: 16 + 1 is a tie, to even; 16 + 1 + 1 is 18 in f32, and would stay 16 in steps */
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_SUM, 0, PATTERNS(0x58, 0x38)), 0x58);
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_SUM, 0, PATTERNS(0x58, 0x38, 0x38)), 0x59);
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_SUM, 0, PATTERNS(0x7e, 0x68)), 0x7f);
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_AVG, 4, PATTERNS(0x40, 0x40)), 0x38);
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_MIN, 0, PATTERNS(0, 0x80)), 0x80);
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_MAX, 0, PATTERNS(0x7e, 0xff)) & 0x7f, 0x7f);
    assert_int_equal(fold_patterns(GYRE_F8E4M3, GYRE_PROD, 0, PATTERNS(0x40, 0xb8)), 0xc0);
    assert_int_equal(fold_patterns(GYRE_F8E5M2, GYRE_SUM, 0, PATTERNS(0x7b, 0x7b)), 0x7c);
    assert_int_equal(fold_patterns(GYRE_F8E5M2, GYRE_MIN, 0, PATTERNS(0xfc, 0x7c)), 0xfc);
    assert_true(
        is_nan_pattern(GYRE_F8E5M2, fold_patterns(GYRE_F8E5M2, GYRE_MAX, 0, PATTERNS(0x7c, 0xfd))));
}

/* -- multiplication by a number ---------------------------------------------------------------- */

static uint64_t scale_pattern(int type, uint64_t pattern, uint64_t number)
{
    const void *source = &pattern;
    void *destination = &pattern;
    struct gyre_fold_task task = {.destination = &destination,
                                  .source = &source,
                                  .destinations = 1,
                                  .sources = 1,
                                  .count = 1,
                                  .context = &number};
    gyre_scale((enum gyre_type)type)(&task, NULL);
    return pattern;
}

static void test_scale(void **state)
{
    assert_int_equal(scale_pattern(GYRE_F32, 0x40400000, 0xbf000000), 0xbfc00000);
    assert_int_equal(scale_pattern(GYRE_F64, 0x4008000000000000, 0x3fe0000000000000),
                     0x3ff8000000000000);
    assert_int_equal(scale_pattern(GYRE_F16, 0x7bff, 0x4000), 0x7c00);
    assert_int_equal(scale_pattern(GYRE_BF16, 0x3f81, 0x3f81), 0x3f82);
    assert_int_equal(scale_pattern(GYRE_F8E4M3, 0x7e, 0x40), 0x7f);
    assert_int_equal(scale_pattern(GYRE_F8E5M2, 0x3d, 0x40), 0x41);
    assert_int_equal(scale_pattern(GYRE_I8, 0x80, 0xff), 0x80);
    assert_int_equal(scale_pattern(GYRE_U8, 200, 2), 144);
    assert_int_equal(scale_pattern(GYRE_I16, 0xffff, 7), 0xfff9);
    assert_int_equal(scale_pattern(GYRE_U16, 0xffff, 0xffff), 1);
    assert_int_equal(scale_pattern(GYRE_I32, 0xffffffff, 7), 0xfffffff9);
    assert_int_equal(scale_pattern(GYRE_U32, 0x80000001, 2), 2);
    assert_int_equal(scale_pattern(GYRE_I64, UINT64_MAX, 7), (uint64_t)-7);
    assert_int_equal(scale_pattern(GYRE_U64, UINT64_C(1) << 63, 3), UINT64_C(1) << 63);
    assert_null(gyre_scale((enum gyre_type)GYRE_TYPE_COUNT));
}

/* Products and sum are f32's: of halves neither is rounded before the end. Numbers wrap. */
static void test_scale_and_sum(void **state)
{
    const float floats[2][2] = {{1.5F, -3}, {10, 0.25F}}, weights[2] = {2, -0.5F};
    const uint16_t halves[2] = {0x7bff, 0x7bff}, of_halves[2] = {0x4000, 0xbe00};
    const uint8_t bytes[2] = {200, 100}, of_bytes[2] = {2, 3};
    float sums[2][2];
    uint16_t half;
    uint8_t byte;
    struct gyre_fold_task task = {.destination = (void *const[]){sums[0], sums[1]},
                                  .source = (const void *const[]){floats[0], floats[1]},
                                  .destinations = 2,
                                  .sources = 2,
                                  .count = 2,
                                  .context = weights};
    gyre_scale(GYRE_F32)(&task, NULL);
    for (int d = 0; d < 2; d++)
        assert_true(sums[d][0] == -2 && sums[d][1] == -6.125F);
    task = (struct gyre_fold_task){.destination = (void *const[]){&half},
                                   .source = (const void *const[]){&halves[0], &halves[1]},
                                   .destinations = 1,
                                   .sources = 2,
                                   .count = 1,
                                   .context = of_halves};
    gyre_scale(GYRE_F16)(&task, NULL); /* 2 × 65504 − 1.5 × 65504: its half */
    assert_int_equal(half, 0x77ff);
    task.destination = (void *const[]){&byte};
    task.source = (const void *const[]){&bytes[0], &bytes[1]};
    task.context = of_bytes;
    gyre_scale(GYRE_U8)(&task, NULL);
    assert_int_equal(byte, (uint8_t)(400 + 300));
}

/* -- casts ------------------------------------------------------------------------------------- */

/* Sums are f32's, and rounded once. */
static void test_cast(void **state)
{
    const float masters[2] = {1, 0x1.01p0F};
    const uint16_t wires[3] = {0x3f80, 0x3f81, 0xbf80};
    uint16_t wire;
    float master;
    struct gyre_fold_task task = {.destination = (void *const[]){&wire},
                                  .source = (const void *const[]){&masters[0], &masters[1]},
                                  .destinations = 1,
                                  .sources = 2,
                                  .count = 1};
    gyre_cast(GYRE_F32, GYRE_BF16)(&task, NULL);
    assert_int_equal(wire, 0x4000); /* of 2.00390625 */
    gyre_cast(GYRE_F32, GYRE_F16)(&task, NULL);
    assert_int_equal(wire, 0x4002);
    task.divisor = 2;
    gyre_cast(GYRE_F32, GYRE_F16)(&task, NULL);
    assert_int_equal(wire, 0x3c02);
    task = (struct gyre_fold_task){.destination = (void *const[]){&master},
                                   .source = (const void *const[]){&wires[0], &wires[1], &wires[2]},
                                   .destinations = 1,
                                   .sources = 3,
                                   .count = 1};
    gyre_cast(GYRE_BF16, GYRE_F32)(&task, NULL);
    assert_true(master == 0x1.02p0F);
    const uint16_t halves[1] = {0x3c01};
    task.source = (const void *const[]){&halves[0]};
    task.sources = 1;
    gyre_cast(GYRE_F16, GYRE_F32)(&task, NULL);
    assert_true(master == 0x1.004p0F);
    assert_null(gyre_cast(GYRE_F32, GYRE_F32));
}

/* One source and one destination, apart and in place, of an odd count at an odd address; the modes
 * of the caller neither matter nor change. */
static void test_scale_of_many(void **state)
{
    static char memory[2][1001 * 2 + 1];
    const uint16_t half = 0x3800;
    for (int in_place = 0; in_place < 2; in_place++) {
        for (uint16_t i = 0; i < 1001; i++)
            memcpy(&memory[0][1 + 2 * i], &i, 2);
        const void *source = &memory[0][1];
        void *destination = &memory[!in_place][1];
        struct gyre_fold_task task = {.destination = &destination,
                                      .source = &source,
                                      .destinations = 1,
                                      .sources = 1,
                                      .count = 1001,
                                      .context = &half};
        gyre_scale(GYRE_F16)(&task, NULL);
        for (uint16_t i = 0; i < 1001; i++) { /* subnormal: halves, ties to even */
            uint16_t found, wanted = (uint16_t)(i / 2 + (i % 4 == 3));
            memcpy(&found, (char *)destination + 2 * i, 2);
            assert_int_equal(found, wanted);
        }
    }
}

/* -- the user's function ----------------------------------------------------------------------- */

static void add(void *into, const void *from, uint64_t count, enum gyre_type type, void *context)
{
    for (uint64_t i = 0; i < count; i++)
        ((int32_t *)into)[i] += ((const int32_t *)from)[i];
    ++*(int *)context;
}

/* More than the function is given at once, in place. */
static void test_user_function_of_many(void **state)
{
    enum { COUNT = 5001 };
    static int32_t one[COUNT], two[COUNT], copy[COUNT];
    int calls = 0;
    struct gyre_user_op user = {.fold = add, .context = &calls, .type = GYRE_I32};
    struct gyre_fold_task task = {.destination = (void *const[]){one, copy},
                                  .destinations = 2,
                                  .source = (const void *const[]){one, two},
                                  .sources = 2,
                                  .count = COUNT,
                                  .context = &user};
    for (int32_t i = 0; i < COUNT; i++)
        one[i] = i, two[i] = 3 * i + 1;
    gyre_fold_by_user(&task, NULL);
    for (int32_t i = 0; i < COUNT; i++) {
        assert_int_equal(one[i], 4 * i + 1);
        assert_int_equal(copy[i], 4 * i + 1);
    }
    assert_true(calls > 1);
}

/* -- which table is used ----------------------------------------------------------------------- */

static void test_table(void **state)
{
    const struct gyre_reduce_table *table = gyre_reduce_table(GYRE_MEMORY_HOST);
    assert_non_null(table);
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        for (int op = 0; op < GYRE_OP_COUNT; op++) {
            bool suits = gyre_op_suits((enum gyre_type)type, (enum gyre_op)op);
            assert_int_equal(table->fold[type][op] != NULL, suits);
            if (suits) /* main() set GYRE_KERNELS */
                assert_string_equal(table->variant[type][op], "scalar");
        }
    }
    assert_ptr_equal(gyre_reduce_table(GYRE_MEMORY_CUDA), gyre_reduce_cuda_table());
}

/* -- all --------------------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_of_floats),
        cmocka_unit_test(test_reference_of_integers),
        cmocka_unit_test(test_reference_of_bits),
        cmocka_unit_test(test_reference_of_bytes),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_bytes_e4m3),
        cmocka_unit_test(test_bytes_e5m2),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_scale_and_sum),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_scale_of_many),
        cmocka_unit_test(test_user_function_of_many),
        cmocka_unit_test(test_table),
    };
    setenv("GYRE_KERNELS", "scalar", 1);
    reference = table_up_to(0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
