/* The digits data set and its split, against scikit-learn 1.9.1: load_digits(), and
 * train_test_split(test_size=0.2, random_state=42) of its rows. */
#include <stdio.h>
#include <openssl/evp.h>

#include "data/builtin/digits.h"
#include "rig/test.h"

/* -- what scikit-learn says -------------------------------------------------------------------- */

/* SHA-256 of all pixels and of all digits, a byte each, and of row numbers, four bytes each. */
static const char pixel_sum[] = "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3";
static const char digit_sum[] = "8ba4f891220f5e4c9c819638d1602d74b83618f167043c6da52a2a247841ddf0";
static const char test_sum[] = "da1f840714b75e475a8ce891b8bfe38f317cbf092d2cf427b86e141bc1b4ceb8";
static const char train_sum[] = "0d31acf09c24a7840111746bd4188ffaab4a0c773fedc1684d3ed5db32b7a525";
static const int digit_count[] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};

/* -- the tests --------------------------------------------------------------------------------- */

static void expect_sum(const void *data, size_t length, const char *expected)
{
    unsigned char sum[32];
    char text[65];
    assert_int_equal(EVP_Digest(data, length, sum, NULL, EVP_sha256(), NULL), 1);
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
    assert_string_equal(text, expected);
}

static void every_pixel_is_there(void **state)
{
    static uint8_t pixels[GYRE_DIGITS_ROWS][GYRE_DIGITS_PIXELS], digits[GYRE_DIGITS_ROWS];
    float taken[GYRE_DIGITS_PIXELS];
    (void)state;
    for (uint32_t row = 0; row < GYRE_DIGITS_ROWS; row++) {
        digits[row] = (uint8_t)gyre_digits_take(row, taken);
        for (int i = 0; i < GYRE_DIGITS_PIXELS; i++) {
            assert_true(taken[i] >= 0 && taken[i] <= 1);
            pixels[row][i] = (uint8_t)(taken[i] * 16);
        }
    }
    expect_sum(pixels, sizeof pixels, pixel_sum);
    expect_sum(digits, sizeof digits, digit_sum);
}

static void digits_are_as_many_as_published(void **state)
{
    int count[GYRE_DIGITS_CLASSES] = {0};
    float pixel[GYRE_DIGITS_PIXELS];
    (void)state;
    for (uint32_t row = 0; row < GYRE_DIGITS_ROWS; row++)
        count[gyre_digits_take(row, pixel)]++;
    assert_memory_equal(count, digit_count, sizeof count);
}

static void rows_are_split_alike(void **state)
{
    static uint32_t row[GYRE_DIGITS_ROWS];
    (void)state;
    assert_int_equal(GYRE_DIGITS_TEST, 360);
    gyre_split_rows(GYRE_DIGITS_ROWS, 42, row);
    expect_sum(row, GYRE_DIGITS_TEST * sizeof *row, test_sum);
    expect_sum(row + GYRE_DIGITS_TEST, GYRE_DIGITS_TRAIN * sizeof *row, train_sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pixel_is_there),
        cmocka_unit_test(digits_are_as_many_as_published),
        cmocka_unit_test(rows_are_split_alike),
    };
    return cmocka_run_group_tests_name("digits", tests, NULL, NULL);
}
