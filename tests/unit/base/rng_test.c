/* Random numbers and bytes. */
#include "base/rng.h"
#include "rig/test.h"

#include <string.h>

static void test_rng_repeats(void **state)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 0);
    /* computed from the authors' reference code: splitmix64 from 0, then xoshiro256** */
    assert_true(gyre_rng_next(&rng) == UINT64_C(0x99ec5f36cb75f2b4));
    assert_true(gyre_rng_next(&rng) == UINT64_C(0xbf6e1f784956452a));
    assert_true(gyre_rng_next(&rng) == UINT64_C(0x1a5f849d4933e6e0));
}

static void test_rng_is_even(void **state)
{
    struct gyre_rng rng;
    int count[7] = {0};
    gyre_rng_seed(&rng, 5);
    for (int i = 0; i < 70000; i++) {
        uint64_t value = gyre_rng_below(&rng, 7);
        assert_true(value < 7);
        count[value]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(count[i], 9500, 10500); /* five standard deviations */
    assert_true(gyre_rng_below(&rng, 1) == 0);
    uint64_t thirds = 0, bound = UINT64_C(3) << 62; /* undrawn again, half were multiples of 3 */
    for (int i = 0; i < 30000; i++)
        thirds += gyre_rng_below(&rng, bound) % 3 == 0;
    assert_in_range(thirds, 9500, 10500);
}

static void test_random_bytes(void **state)
{
    unsigned char a[600] = {0}, b[600] = {0};
    assert_int_equal(gyre_random_bytes(a, sizeof a), 0);
    assert_int_equal(gyre_random_bytes(b, sizeof b), 0);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + 568, (unsigned char[32]){0}, 32);
    assert_int_equal(gyre_random_bytes(a, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng_repeats),
        cmocka_unit_test(test_rng_is_even),
        cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
