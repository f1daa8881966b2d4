/* Shares by weight: how many, worked out by hand, and where, by comparing every pair. */
#include "base/rng.h"
#include "sampler/shares.h"
#include "rig/test.h"

#include <math.h>
#include <string.h>

static void expect_counts(uint64_t whole, uint32_t world, const double *weight,
                          const uint64_t *expected)
{
    struct gyre_shares shares;
    assert_int_equal(gyre_shares_init(&shares, weight, world, whole, NULL), 0);
    for (uint32_t r = 0; r < world; r++)
        assert_int_equal(shares.count[r], expected[r]);
    gyre_shares_deinit(&shares);
}

static void the_largest_remainders_are_rounded_up(void **state)
{
    (void)state;
    expect_counts(142, 2, (double[]){4, 2}, (uint64_t[]){95, 47});
    expect_counts(10, 2, (double[]){4, 2}, (uint64_t[]){7, 3});
    expect_counts(10, 3, (double[]){1, 1, 1}, (uint64_t[]){4, 3, 3});
    expect_counts(10, 4, (double[]){1, 1, 1, 1}, (uint64_t[]){3, 3, 2, 2});
    expect_counts(2, 2, (double[]){1, 3}, (uint64_t[]){1, 1}); /* halves: to the lower rank */
    expect_counts(100, 4, (double[]){0.47, 0.16, 0.158, 0.212}, (uint64_t[]){47, 16, 16, 21});
    expect_counts(10, 5, (double[]){3.7, 1.6, 1.3, 1.2, 2.2}, (uint64_t[]){4, 2, 1, 1, 2});
    expect_counts(0, 2, (double[]){1, 1}, (uint64_t[]){0, 0});
    expect_counts(3, 2, (double[]){1, 1e-300}, (uint64_t[]){3, 0});
    expect_counts(7, 2, (double[]){1e308, 1e308}, (uint64_t[]){4, 3});
    expect_counts(7, 2, (double[]){5e-324, 5e-324}, (uint64_t[]){4, 3});
    expect_counts(UINT64_C(1) << 53, 2, (double[]){1, 2},
                  (uint64_t[]){UINT64_C(3002399751580331), UINT64_C(6004799503160661)});
}

/* Sample k of rank r is due at (2k + 1) / (2 · count): places counted out by comparing all. */
static uint64_t place_by_hand(const struct gyre_shares *shares, uint32_t r, uint64_t k)
{
    uint64_t place = 0;
    for (uint32_t s = 0; s < shares->world; s++)
        for (uint64_t j = 0; j < shares->count[s]; j++) {
            uint64_t one = (2 * j + 1) * shares->count[r], other = (2 * k + 1) * shares->count[s];
            place += one < other || (one == other && (s < r || (s == r && j < k)));
        }
    return place;
}

static void places_are_in_the_order_of_times(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 100; number++) {
        double weight[12];
        struct gyre_rng rng;
        struct gyre_shares shares;
        gyre_rng_seed(&rng, number);
        uint64_t whole = gyre_rng_below(&rng, 60);
        uint32_t world = 1 + (uint32_t)gyre_rng_below(&rng, 12);
        for (uint32_t r = 0; r < world; r++)
            weight[r] = (double)(1 + gyre_rng_below(&rng, 9));
        assert_int_equal(gyre_shares_init(&shares, weight, world, whole, NULL), 0);
        for (uint32_t r = 0; r < world; r++) {
            for (uint64_t k = 0; k < shares.count[r]; k++) {
                uint64_t place = gyre_shares_place(&shares, r, k);
                assert_int_equal(place, place_by_hand(&shares, r, k));
                assert_int_equal(gyre_shares_before(&shares, r, place), k);
                assert_int_equal(gyre_shares_before(&shares, r, place + 1), k + 1);
            }
            assert_int_equal(gyre_shares_before(&shares, r, whole), shares.count[r]);
        }
        gyre_shares_deinit(&shares);
    }
}

static void expect_weights(uint32_t world, const uint64_t *speed, const double *expected)
{
    double weight[8];
    gyre_shares_from_speeds(speed, world, weight);
    for (uint32_t r = 0; r < world; r++)
        assert_true(weight[r] == expected[r]);
}

static void speeds_become_small_whole_numbers(void **state)
{
    (void)state;
    expect_weights(1, (uint64_t[]){17}, (double[]){1});
    expect_weights(2, (uint64_t[]){812, 405}, (double[]){2, 1});
    expect_weights(2, (uint64_t[]){300, 200}, (double[]){3, 2});
    expect_weights(3, (uint64_t[]){1000, 2000, 1500}, (double[]){2, 4, 3});
    expect_weights(2, (uint64_t[]){5, 4}, (double[]){4, 3});
    expect_weights(4, (uint64_t[]){97, 104, 100, 101}, (double[]){1, 1, 1, 1});
    expect_weights(2, (uint64_t[]){100, 111}, (double[]){1, 1});
    expect_weights(2, (uint64_t[]){100, 112}, (double[]){5, 6});
    expect_weights(2, (uint64_t[]){1, 1000000}, (double[]){1, 8});
    expect_weights(3, (uint64_t[]){UINT64_MAX, UINT64_MAX / 3, 1}, (double[]){8, 8, 1});
    expect_weights(2, (uint64_t[]){UINT64_MAX, UINT64_MAX / 3}, (double[]){3, 1});
}

/* Whatever the speeds: nobody is over a tenth off what it is due, nobody faster gets less. */
static void speeds_are_kept_to_a_tenth(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 2000; number++) {
        uint64_t speed[12], slowest = UINT64_MAX;
        double weight[12], least = 1e9;
        struct gyre_rng rng;
        gyre_rng_seed(&rng, number);
        uint32_t world = 1 + (uint32_t)gyre_rng_below(&rng, 12);
        for (uint32_t r = 0; r < world; r++) {
            speed[r] = 1000 + gyre_rng_below(&rng, number % 2 ? 200 : 12000);
            slowest = speed[r] < slowest ? speed[r] : slowest;
        }
        gyre_shares_from_speeds(speed, world, weight);
        for (uint32_t r = 0; r < world; r++)
            least = weight[r] < least ? weight[r] : least;
        assert_true(least >= 1 && least <= 5);
        for (uint32_t r = 0; r < world; r++) {
            double ratio = (double)speed[r] / (double)slowest,
                   due = least * (ratio < 8 ? ratio : 8);
            assert_true(fabs(weight[r] - due) <= 0.1 * due * (1 + 1e-12));
            for (uint32_t s = 0; s < world; s++)
                assert_true(speed[r] < speed[s] || weight[r] >= weight[s]);
        }
    }
}

static void expect_refused(const double *weight, const char *says)
{
    struct gyre_trouble trouble = {0};
    struct gyre_shares shares;
    assert_int_equal(gyre_shares_init(&shares, weight, 3, 10, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, says));
    gyre_shares_deinit(&shares);
}

static void weights_are_positive_and_finite(void **state)
{
    (void)state;
    expect_refused((double[]){1, 1, 0}, "the share of rank 2 is 0: shares are positive and finite");
    expect_refused((double[]){1, -2.5, 0}, "the share of rank 1 is -2.5");
    expect_refused((double[]){1, 1, INFINITY}, "the share of rank 2 is inf");
    expect_refused((double[]){NAN, 1, 1}, "the share of rank 0 is ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_remainders_are_rounded_up),
        cmocka_unit_test(places_are_in_the_order_of_times),
        cmocka_unit_test(speeds_become_small_whole_numbers),
        cmocka_unit_test(speeds_are_kept_to_a_tenth),
        cmocka_unit_test(weights_are_positive_and_finite),
    };
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
