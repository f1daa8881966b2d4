/* The Wine data set and its split, against what scikit-learn 1.2.1 makes of the same data with
 * train_test_split(test_size=0.2, random_state=42) and StandardScaler. */
#include <float.h>
#include <stdio.h>
#include <string.h>
#include <openssl/evp.h>

#include "data/scale.h"
#include "data/builtin/wine.h"
#include "rig/test.h"

/* -- what scikit-learn says -------------------------------------------------------------------- */

static const uint32_t train_row[] = {
    158, 137, 98,  159, 38,  108, 85,  68, 143, 2,   100, 122, 154, 51,  76,  56,  26,  153,
    138, 104, 78,  36,  93,  22,  146, 97, 69,  167, 11,  6,   27,  144, 4,   32,  95,  170,
    75,  10,  147, 123, 0,   142, 126, 64, 44,  96,  28,  40,  127, 25,  23,  132, 81,  79,
    84,  39,  101, 86,  120, 173, 162, 47, 94,  135, 166, 61,  73,  33,  125, 133, 139, 62,
    176, 112, 115, 105, 53,  5,   160, 3,  165, 49,  35,  80,  77,  34,  46,  7,   124, 43,
    70,  136, 110, 91,  83,  156, 161, 89, 8,   13,  59,  152, 131, 17,  72,  155, 134, 148,
    163, 63,  54,  107, 50,  175, 58,  48, 88,  21,  57,  172, 129, 37,  157, 168, 1,   52,
    149, 130, 151, 103, 99,  116, 87,  74, 121, 177, 20,  71,  106, 14,  92,  102};
static const uint32_t test_row[] = {19,  45,  140, 30,  67,  16, 119, 174, 109, 141, 24, 150,
                                    41,  118, 15,  111, 113, 82, 9,   114, 18,  66,  60, 169,
                                    171, 164, 117, 65,  90,  55, 29,  128, 145, 31,  12, 42};
static const double mean[] = {12.979084507042247, 2.373521126760564,   2.360845070422534,
                              19.473239436619718, 100.44366197183099,  2.2890845070422534,
                              2.002112676056337,  0.36802816901408464, 1.6080281690140843,
                              5.057605633802816,  0.9563802816901406,  2.5928169014084506,
                              734.8943661971831};
static const double deviation[] = {0.8172229727710529, 1.1398988077049563,  0.2782325832159548,
                                   3.4426061920257927, 14.599114698167284,  0.6354657878331825,
                                   1.0006278528904553, 0.12781610599993065, 0.5815971688481131,
                                   2.3226954138070646, 0.2332751422795718,  0.7195933575831022,
                                   301.25719458994496};
static const char train_sum[] = "cd117b38ba87f609b69b55e2959d71242965390146790b8c350d50b7813599e8";
static const char test_sum[] = "9c1428c404125289a938dacc566af3f1d615c38e0937431909709e81b46ddfa5";

/* -- the split --------------------------------------------------------------------------------- */

static struct gyre_wine wine;

static int split(void **state)
{
    gyre_wine_split(42, &wine);
    return 0;
}

static void expect_sum(const void *data, size_t length, const char *expected)
{
    unsigned char sum[32];
    char text[65];
    assert_int_equal(EVP_Digest(data, length, sum, NULL, EVP_sha256(), NULL), 1);
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    assert_string_equal(text, expected);
}

static void rows_are_split_alike(void **state)
{
    assert_int_equal(sizeof wine.train_row, sizeof train_row);
    assert_int_equal(sizeof wine.test_row, sizeof test_row);
    assert_memory_equal(wine.train_row, train_row, sizeof train_row);
    assert_memory_equal(wine.test_row, test_row, sizeof test_row);
}

static void scales_are_alike(void **state)
{
    assert_memory_equal(wine.mean, mean, sizeof mean);
    assert_memory_equal(wine.scale, deviation, sizeof deviation);
}

static void scaled_rows_have_the_same_bits(void **state)
{
    expect_sum(wine.train, sizeof wine.train, train_sum);
    expect_sum(wine.test, sizeof wine.test, test_sum);
}

static void classes_belong_to_their_rows(void **state)
{
    static const int train_count[] = {45, 57, 40}, test_count[] = {14, 14, 8};
    int train[3] = {0}, test[3] = {0}, all[3] = {0};
    for (int i = 0; i < GYRE_WINE_TRAIN; i++) {
        assert_int_equal(wine.train_class[i], gyre_wine_class(wine.train_row[i]));
        train[wine.train_class[i]]++;
    }
    for (int i = 0; i < GYRE_WINE_TEST; i++) {
        assert_int_equal(wine.test_class[i], gyre_wine_class(wine.test_row[i]));
        test[wine.test_class[i]]++;
    }
    for (uint32_t i = 0; i < GYRE_WINE_ROWS; i++)
        all[gyre_wine_class(i)]++;
    assert_memory_equal(train, train_count, sizeof train);
    assert_memory_equal(test, test_count, sizeof test);
    assert_true(all[0] == 59 && all[1] == 71 && all[2] == 48);
}

/* Other seeds, other splits, but always every row once. */
static void every_row_is_somewhere(void **state)
{
    struct gyre_wine other;
    uint8_t seen[GYRE_WINE_ROWS] = {0};
    gyre_wine_split(7, &other);
    assert_memory_not_equal(other.test_row, wine.test_row, sizeof wine.test_row);
    for (int i = 0; i < GYRE_WINE_TRAIN; i++)
        seen[other.train_row[i]]++;
    for (int i = 0; i < GYRE_WINE_TEST; i++)
        seen[other.test_row[i]]++;
    for (int i = 0; i < GYRE_WINE_ROWS; i++)
        assert_int_equal(seen[i], 1);
}

static void the_last_row_is_there(void **state)
{
    assert_true(gyre_wine_values[GYRE_WINE_ROWS - 1][GYRE_WINE_FEATURES - 1] == 560);
}

/* -- scaling ----------------------------------------------------------------------------------- */

static void fit_one(const double *values, uint64_t rows, double *middle, double *scale)
{
    gyre_scale_fit(values, rows, 1, middle, scale);
}

/* Nor is a column scaled up that changes by no more than rounding does. */
static void a_column_that_never_changes_keeps_its_scale(void **state)
{
    static const double same[] = {7, 7, 7}, nearly[] = {1, 1 + DBL_EPSILON};
    double middle, scale;
    fit_one(same, 3, &middle, &scale);
    assert_true(middle == 7 && scale == 1);
    fit_one(nearly, 2, &middle, &scale);
    assert_true(scale == 1);
}

/* The sum of these is no fp64, so the mean is off by one; that does not count as deviation. */
static void a_rounded_mean_is_made_good(void **state)
{
    static const double large[] = {1e16, 1e16 + 10};
    double middle, scale;
    fit_one(large, 2, &middle, &scale);
    assert_true(middle == 1e16 + 4 && scale == 5);
}

/* By the reciprocal of 49 this would be 33554430. */
static void scaling_divides(void **state)
{
    static const double value = 1644167119, middle = 0, scale = 49;
    float scaled;
    gyre_scale_apply(&value, 1, 1, &middle, &scale, &scaled);
    assert_true(scaled == 33554432);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_split_alike),
        cmocka_unit_test(scales_are_alike),
        cmocka_unit_test(scaled_rows_have_the_same_bits),
        cmocka_unit_test(classes_belong_to_their_rows),
        cmocka_unit_test(every_row_is_somewhere),
        cmocka_unit_test(the_last_row_is_there),
        cmocka_unit_test(a_column_that_never_changes_keeps_its_scale),
        cmocka_unit_test(a_rounded_mean_is_made_good),
        cmocka_unit_test(scaling_divides),
    };
    return cmocka_run_group_tests(tests, split, NULL);
}
