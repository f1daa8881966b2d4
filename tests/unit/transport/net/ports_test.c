/* GYRE_PORT_RANGE: what is a range, and what is none. */
#include "transport/net/ports.h"
#include "rig/test.h"

#include <stdlib.h>

static int range(const char *text, uint16_t *low, uint16_t *high)
{
    struct gyre_trouble trouble = {0};
    setenv("GYRE_PORT_RANGE", text, 1);
    int status = gyre_ports_read(low, high, &trouble);
    assert_int_equal(trouble.status, status);
    return status;
}

static void test_ranges(void **state)
{
    uint16_t low, high;
    assert_int_equal(range("29600-29700", &low, &high), 0);
    assert_true(low == 29600 && high == 29700);
    assert_int_equal(range("1-65535", &low, &high), 0);
    assert_true(low == 1 && high == 65535);
    assert_int_equal(range("7-7", &low, &high), 0);
    assert_true(low == 7 && high == 7);
    assert_int_equal(range("", &low, &high), 0);
    assert_true(low == 0 && high == 0);
}

static void test_what_is_no_range(void **state)
{
    static const char *const wrong[] = {"29600", "0-9", "9-8", "1-65536", "1-2x", "a-b"};
    uint16_t low, high;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(range(wrong[i], &low, &high), GYRE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_what_is_no_range),
    };
    return cmocka_run_group_tests_name("ports", tests, NULL, NULL);
}
