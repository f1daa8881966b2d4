/* Time. */
#include "base/clock.h"
#include "rig/test.h"

static void test_clock_goes_on(void **state)
{
    uint64_t before = gyre_now_ns();
    assert_true(before > 0);
    assert_true(gyre_now_ns() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
