/* The rows of types and reductions, and what is looked up in them. */
#include "base/types.h"
#include "rig/test.h"

#include <string.h>

static void test_type_sizes(void **state)
{
    static const size_t size[] = {4, 8, 2, 2, 4, 8, 1, 1, 4, 8, 2, 2, 1, 1};
    for (int type = 0; type < 14; type++) {
        assert_int_equal(gyre_type_size((enum gyre_type)type), size[type]);
        assert_int_equal(gyre_type_rows[type].bits, 8 * size[type]);
    }
    assert_int_equal(gyre_type_size((enum gyre_type)GYRE_TYPE_COUNT), 0);
    assert_int_equal(gyre_type_size((enum gyre_type) - 1), 0);
}

/* Peers of other builds read these numbers: none may change. */
static void test_names_have_their_numbers(void **state)
{
    static const char *const types[] = {"f32", "f64", "f16", "bf16", "i32", "i64",    "u8",
                                        "i8",  "u32", "u64", "i16",  "u16", "f8e4m3", "f8e5m2"};
    static const char *const ops[] = {"sum", "avg", "min", "max", "prod", "and", "or", "xor"};
    assert_true(GYRE_TYPE_COUNT >= 14 && GYRE_OP_COUNT >= 8);
    for (uint32_t type = 0; type < 14; type++)
        assert_string_equal(gyre_type_name(type), types[type]);
    for (uint32_t op = 0; op < 8; op++)
        assert_string_equal(gyre_op_name(op), ops[op]);
    assert_string_equal(gyre_type_name(GYRE_TYPE_COUNT), "?");
    assert_string_equal(gyre_op_name(GYRE_OP_COUNT), "?");
}

static void test_rows_are_alike(void **state)
{
    for (int type = 0; type < GYRE_TYPE_COUNT; type++) {
        const struct gyre_type_row *row = &gyre_type_rows[type];
        bool is_float = gyre_type_is_float((enum gyre_type)type);
        assert_int_equal(is_float, strchr(row->name, 'f') != NULL);
        assert_int_equal(row->small_float, is_float && row->bits < 32);
        assert_int_equal(is_float, row->last != 0);
        if (is_float) /* infinity, or the largest number of the last exponent */
            assert_int_equal(row->last >> row->fraction,
                             (1U << (row->bits - 1 - row->fraction)) - 1);
    }
}

static void test_bits_are_for_integers(void **state)
{
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        for (int op = 0; op < GYRE_OP_COUNT; op++)
            assert_int_equal(gyre_op_suits((enum gyre_type)type, (enum gyre_op)op),
                             op < GYRE_AND || !gyre_type_is_float((enum gyre_type)type));
    assert_false(gyre_op_suits(GYRE_I32, (enum gyre_op)GYRE_OP_COUNT));
    assert_false(gyre_op_suits((enum gyre_type)GYRE_TYPE_COUNT, GYRE_SUM));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_type_sizes),
        cmocka_unit_test(test_names_have_their_numbers),
        cmocka_unit_test(test_rows_are_alike),
        cmocka_unit_test(test_bits_are_for_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
