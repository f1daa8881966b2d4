/* Values of the environment and of command lines. */
#include "base/env.h"
#include "rig/test.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_integers(void **state)
{
    static const char *const wrong[] = {
        "", "x", "1x", " 1", "1 ", "--1", "1.0", "0x10", "101", "-6", "9223372036854775808"};
    int64_t value = 42;
    struct gyre_trouble trouble = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(gyre_parse_int("N", wrong[i], -5, 100, &value, NULL), GYRE_INVALID);
    assert_int_equal(value, 42);
    assert_int_equal(gyre_parse_int("--ranks", "12x", 1, 64, &value, &trouble), GYRE_INVALID);
    assert_string_equal(trouble.text, "--ranks is \"12x\": expected a whole number from 1 to 64");
    assert_int_equal(gyre_parse_int("N", "-5", -5, 100, &value, NULL), 0);
    assert_int_equal(value, -5);
    assert_int_equal(gyre_parse_int("N", "100", -5, 100, &value, NULL), 0);
    assert_int_equal(value, 100);
    assert_int_equal(
        gyre_parse_int("N", "-9223372036854775808", INT64_MIN, INT64_MAX, &value, NULL), 0);
    assert_true(value == INT64_MIN);
}

static void expect_size(const char *text, uint64_t wanted)
{
    uint64_t value = 1234567;
    if (gyre_parse_size("S", text, &value, NULL) || value != wanted)
        fail_msg("size \"%s\" is read as %llu, not %llu", text, (unsigned long long)value,
                 (unsigned long long)wanted);
}

static void test_sizes(void **state)
{
    static const char *const wrong[] = {
        "",    "K",   "-1",  "8Q",  "1.5",  "1.5B",  "1.K",       ".5K",
        "1K ", " 1K", "1KK", "1e3", "0x10", "1..5K", "16777216T", "18446744073709551616"};
    uint64_t value = 42;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (gyre_parse_size("S", wrong[i], &value, NULL) != GYRE_INVALID || value != 42)
            fail_msg("size \"%s\" was taken for %llu", wrong[i], (unsigned long long)value);
    expect_size("0", 0);
    expect_size("8", 8);
    expect_size("64K", 65536);
    expect_size("64k", 65536);
    expect_size("64KiB", 65536);
    expect_size("3MB", 3 << 20);
    expect_size("1.5G", UINT64_C(3) << 29);
    expect_size("0.3333333333333K", 341);
    expect_size("2T", UINT64_C(1) << 41);
    expect_size("18446744073709551615", UINT64_MAX);
    expect_size("16777215.999T", (UINT64_C(16777215) << 40) + UINT64_C(1098412116148));
}

static void test_size_messages(void **state)
{
    uint64_t value;
    struct gyre_trouble trouble = {0};
    gyre_parse_size("-b", "8Q", &value, &trouble);
    assert_string_equal(trouble.text, "-b is \"8Q\": expected a size such as 8, 64K, 1.5M or 2G "
                                      "(powers of 1024)");
    memset(&trouble, 0, sizeof trouble);
    gyre_parse_size("-e", "16777216T", &value, &trouble);
    assert_string_equal(trouble.text, "-e is \"16777216T\": expected a size below 16777216T");
}

static void expect_duration(const char *text, int64_t wanted)
{
    int64_t value = -1;
    if (gyre_parse_duration_ms("D", text, &value, NULL) || value != wanted)
        fail_msg("duration \"%s\" is read as %lld, not %lld", text, (long long)value,
                 (long long)wanted);
}

static void test_durations(void **state)
{
    static const char *const wrong[] = {"", "s", "-1s", "5 s", "5m", "1d", "0.5ms", "inf", "597h"};
    int64_t value = 42;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (gyre_parse_duration_ms("D", wrong[i], &value, NULL) != GYRE_INVALID || value != 42)
            fail_msg("duration \"%s\" was taken for %lld", wrong[i], (long long)value);
    expect_duration("0", 0);
    expect_duration("10", 10000);
    expect_duration("2.5", 2500);
    expect_duration("250ms", 250);
    expect_duration("5s", 5000);
    expect_duration("30min", 1800000);
    expect_duration("2h", 7200000);
    expect_duration("596h", INT64_C(596) * 3600000);
}

static const char *const algorithms[] = {"ring", "direct", "tree", "auto"};

static void test_words(void **state)
{
    int index = -1;
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_parse_word("--algo", "tree", algorithms, 4, &index, &trouble), 0);
    assert_int_equal(index, 2);
    assert_int_equal(gyre_parse_word("--algo", "rign", algorithms, 4, &index, &trouble),
                     GYRE_INVALID);
    assert_int_equal(index, 2);
    assert_string_equal(trouble.text, "--algo is \"rign\": expected ring, direct, tree or auto "
                                      "(did you mean \"ring\"?)");
    memset(&trouble, 0, sizeof trouble);
    gyre_parse_word("--algo", "butterfly", algorithms, 4, &index, &trouble);
    assert_string_equal(trouble.text,
                        "--algo is \"butterfly\": expected ring, direct, tree or auto");
}

static void test_nearest_name(void **state)
{
    static const char *const names[] = {"lr", "batch", "step-size", "nproc-per-node", "label"};
    static const char *const help[] = {"learning rate (0.01)", "samples of each rank", NULL, "",
                                       "x"};
    (void)state;
    assert_string_equal(gyre_nearest_name("learning-rate", names, help, 5), "lr");
    assert_string_equal(gyre_nearest_name("lrr", names, help, 5), "lr");
    assert_string_equal(gyre_nearest_name("batch-size", names, help, 5), "batch");
    assert_string_equal(gyre_nearest_name("nproc", names, help, 5), "nproc-per-node");
    assert_string_equal(gyre_nearest_name("labels", names, help, 5), "label");
    assert_string_equal(gyre_nearest_name("stepsize", names, help, 5), "step-size");
    assert_null(gyre_nearest_name("learning-rates", names, help, 5));
    assert_null(gyre_nearest_name("x", names, help, 5));
    assert_null(gyre_nearest_name("", names, help, 5));
}

static void test_nearest_word(void **state)
{
    char long_text[200];
    memset(long_text, 'r', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    assert_string_equal(gyre_nearest_word("RING", algorithms, 4), "ring");
    assert_string_equal(gyre_nearest_word("rin", algorithms, 4), "ring");
    assert_string_equal(gyre_nearest_word("riing", algorithms, 4), "ring");
    assert_string_equal(gyre_nearest_word("dircet", algorithms, 4), "direct");
    assert_string_equal(gyre_nearest_word("drct", algorithms, 4), "direct");
    assert_null(gyre_nearest_word("rg", algorithms, 4)); /* half of the word is missing */
    assert_null(gyre_nearest_word("", algorithms, 4));
    assert_null(gyre_nearest_word(long_text, algorithms, 4));
    assert_null(gyre_nearest_word("ring", algorithms, 0));
}

static void test_environment(void **state)
{
    int64_t number = 7, duration = 7;
    uint64_t size = 7;
    int index = 7;
    unsetenv("GYRE_TEST_A");
    setenv("GYRE_TEST_B", "", 1);
    assert_int_equal(gyre_env_int("GYRE_TEST_A", 0, 9, &number, NULL), 0);
    assert_int_equal(gyre_env_size("GYRE_TEST_B", &size, NULL), 0);
    assert_int_equal(gyre_env_duration_ms("GYRE_TEST_A", &duration, NULL), 0);
    assert_int_equal(gyre_env_word("GYRE_TEST_B", algorithms, 4, &index, NULL), 0);
    assert_true(number == 7 && size == 7 && duration == 7 && index == 7);
    setenv("GYRE_TEST_A", "5", 1);
    assert_int_equal(gyre_env_int("GYRE_TEST_A", 0, 9, &number, NULL), 0);
    assert_int_equal(gyre_env_size("GYRE_TEST_A", &size, NULL), 0);
    assert_int_equal(gyre_env_duration_ms("GYRE_TEST_A", &duration, NULL), 0);
    assert_int_equal(gyre_env_word("GYRE_TEST_A", algorithms, 4, &index, NULL), GYRE_INVALID);
    assert_true(number == 5 && size == 5 && duration == 5000 && index == 7);
    assert_int_equal(gyre_env_int("GYRE_TEST_A", 6, 9, &number, NULL), GYRE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_size_messages), cmocka_unit_test(test_durations),
        cmocka_unit_test(test_words),         cmocka_unit_test(test_nearest_name),
        cmocka_unit_test(test_nearest_word),  cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
