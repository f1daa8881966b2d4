/* Checked arithmetic, and ranges cut into blocks. */
#include "base/size.h"
#include "rig/test.h"

static void test_blocks_cover_the_range(void **state)
{
    for (uint64_t n = 1; n <= 9; n++) {
        for (uint64_t count = 0; count <= 40; count++) {
            for (uint64_t i = 0; i < n; i++)
                assert_int_equal(gyre_block_start(count, n, i) + gyre_block_count(count, n, i),
                                 gyre_block_start(count, n, i + 1));
            assert_int_equal(gyre_block_start(count, n, 0), 0);
            assert_int_equal(gyre_block_start(count, n, n), count);
        }
    }
    uint64_t out;
    assert_false(gyre_mul_u64(UINT64_C(1) << 33, UINT64_C(1) << 31, &out));
    assert_false(gyre_add_u64(UINT64_MAX, 1, &out));
    assert_true(gyre_add_u64(UINT64_MAX, 0, &out) && out == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_cover_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
