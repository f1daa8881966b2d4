/* The words every room shares: parsing, sums, troubles, chance, and lines on standard error. */
#include "base/clock.h"
#include "base/copy.h"
#include "base/crc.c" /* for both its ways of summing: the CPU chooses one */
#include "base/env.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/size.h"
#include "base/status.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- copies ------------------------------------------------------------------------------------ */

/* At every distance in the page around the slow ones, and of lengths around a step: all bytes, and
 * no others. */
static void test_copies(void **state)
{
    static const size_t lengths[] = {0, 1, 1023, 1024, 1025, 2048, 5000};
    static uint8_t from[3 * 4096], to[4 * 4096], expected[sizeof to];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)gyre_mix64(i);
    for (size_t distance = 0; distance < 70; distance++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            size_t at = 4096 + distance - 2 * (distance % 2); /* some before the source */
            memset(to, 0xa5, sizeof to);
            memset(expected, 0xa5, sizeof expected);
            memcpy(expected + at, from, lengths[i]);
            gyre_copy(to + at, from, lengths[i]);
            assert_memory_equal(to, expected, sizeof to);
        }
    gyre_copy(NULL, NULL, 0);
}

static void test_slow_copies_are_known(void **state)
{
    static const struct {
        uintptr_t to, from;
        uint64_t bytes;
        bool slow;
    } cases[] = {{0x10001, 0x20000, 1025, true},  {0x1001f, 0x20000, 1025, true},
                 {0x2000c, 0x11ffc, 1025, true},  {0x10001, 0x20000, 1024, false},
                 {0x10000, 0x20000, 1025, false}, {0x10020, 0x20000, 1025, false},
                 {0x10000, 0x20001, 1025, false}, {0x10800, 0x20000, 1025, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(gyre_copy_is_slow((const void *)cases[i].to, (const void *)cases[i].from,
                                           cases[i].bytes),
                         cases[i].slow);
}

/* -- hexadecimal digits ------------------------------------------------------------------------ */

static void test_hex_goes_there_and_back(void **state)
{
    uint8_t bytes[256], back[256];
    char text[2 * sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    gyre_hex_write(bytes, sizeof bytes, text);
    assert_int_equal(strlen(text), 2 * sizeof bytes);
    assert_memory_equal(text + 2 * 0xa0, "a0a1", 4);
    assert_true(gyre_hex_read(text, back, sizeof back));
    assert_memory_equal(back, bytes, sizeof back);
    assert_true(gyre_hex_read("Ab", back, 1));
    assert_int_equal(back[0], 0xab);
    for (int c = 0; c < 256; c++) {
        const char *digits = "0123456789abcdefABCDEF";
        const char low[] = {'0', (char)c}, high[] = {(char)c, '0'};
        bool digit = c && strchr(digits, c);
        assert_int_equal(gyre_hex_read(low, back, 1), digit);
        assert_int_equal(gyre_hex_read(high, back, 1), digit);
    }
}

/* -- status and trouble ------------------------------------------------------------------------ */

static void test_status_names(void **state)
{
    assert_string_equal(gyre_status_name(GYRE_OK), "GYRE_OK");
    assert_string_equal(gyre_status_name(GYRE_AGAIN), "GYRE_AGAIN");
    assert_string_equal(gyre_status_name(GYRE_PEER_LOST), "GYRE_PEER_LOST");
    assert_string_equal(gyre_status_name(GYRE_LAUNCHER_GONE), "GYRE_LAUNCHER_GONE");
    assert_string_equal(gyre_status_name(-ENOMEM), "Cannot allocate memory");
    assert_string_equal(gyre_status_name(-999), "unknown status");
    assert_string_equal(gyre_status_name(INT_MIN), "unknown status");
    for (int status = GYRE_LAUNCHER_GONE; status <= GYRE_PEER_LOST; status++)
        assert_memory_equal(gyre_status_name(status), "GYRE_", 5);
}

static void test_first_trouble_wins(void **state)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_trouble_wrap(&trouble, "too early"), 0);
    assert_string_equal(trouble.text, "");
    assert_int_equal(gyre_trouble_set(&trouble, -EPIPE, "rank %d died", 3), -EPIPE);
    assert_int_equal(gyre_trouble_set(&trouble, GYRE_TIMED_OUT, "the echo"), GYRE_TIMED_OUT);
    assert_int_equal(gyre_trouble_wrap(&trouble, "all_reduce %d", 7), -EPIPE);
    assert_int_equal(trouble.status, -EPIPE);
    assert_string_equal(trouble.text, "all_reduce 7: rank 3 died");
    assert_int_equal(gyre_trouble_set(NULL, GYRE_INVALID, "nobody listens"), GYRE_INVALID);
    assert_int_equal(gyre_trouble_wrap(NULL, "nobody listens"), 0);
}

static void test_long_trouble_is_marked(void **state)
{
    struct gyre_trouble trouble = {0};
    char text[GYRE_TROUBLE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gyre_trouble_set(&trouble, GYRE_INVALID, "%s", text); /* fits exactly */
    assert_string_equal(trouble.text, text);
    gyre_trouble_wrap(&trouble, "front");
    assert_int_equal(strlen(trouble.text), GYRE_TROUBLE_MAX - 1);
    assert_memory_equal(trouble.text, "front: xxx", 10);
    assert_string_equal(trouble.text + GYRE_TROUBLE_MAX - 5, "x...");
    memset(&trouble, 0, sizeof trouble);
    gyre_trouble_set(&trouble, GYRE_INVALID, "%sy", text);
    assert_string_equal(trouble.text + GYRE_TROUBLE_MAX - 5, "x...");
}

/* -- parsing ----------------------------------------------------------------------------------- */

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

/* -- sums -------------------------------------------------------------------------------------- */

static uint32_t add_bit_by_bit(uint32_t crc, unsigned char byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = (crc >> 1) ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    return crc;
}

static uint32_t sum_bit_by_bit(const unsigned char *bytes, size_t length)
{
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < length; i++)
        crc = add_bit_by_bit(crc, bytes[i]);
    return ~crc;
}

/* RFC 3720, B.4, and the catalogue's check value. */
static void test_crc_vectors(void **state)
{
    unsigned char bytes[32];
    assert_int_equal(gyre_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(gyre_crc32c(0, NULL, 0), 0);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(gyre_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(gyre_crc32c(0, bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(gyre_crc32c(0, bytes, 32), 0x46dd794e);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(gyre_crc32c(0, bytes, 32), 0x113fdb5c);
}

#define CRC_BYTES (2 * 9 * 8192 + 9 * 512 + 100) /* parts of all sizes, then words, then bytes */

static unsigned char *random_bytes(size_t length, uint64_t seed)
{
    struct gyre_rng rng;
    unsigned char *bytes = malloc(length);
    assert_non_null(bytes);
    gyre_rng_seed(&rng, seed);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)gyre_rng_next(&rng);
    return bytes;
}

static void test_crc_of_any_length(void **state)
{
    unsigned char *bytes = random_bytes(CRC_BYTES, 1);
    for (size_t length = 0; length < 2000; length++)
        assert_int_equal(gyre_crc32c(0, bytes + length % 9, length),
                         sum_bit_by_bit(bytes + length % 9, length));
    for (size_t length = 2000; length <= CRC_BYTES - 8; length += 2003)
        assert_int_equal(gyre_crc32c(0, bytes + length % 8, length),
                         sum_bit_by_bit(bytes + length % 8, length));
    free(bytes);
}

static void test_crc_by_table(void **state)
{
    unsigned char *bytes = random_bytes(1000, 3);
    for (size_t length = 0; length < 1000; length++)
        assert_int_equal(~sum_by_table(~UINT32_C(0), bytes, length), sum_bit_by_bit(bytes, length));
    free(bytes);
}

/* Where a better way was chosen, the ones that it leaves behind must still be right. */
static void test_crc_by_instruction(void **state)
{
#if defined(__x86_64__)
    if (sum == sum_by_table)
        skip();
    unsigned char *bytes = random_bytes(CRC_BYTES, 4);
    for (size_t length = 0; length < CRC_BYTES; length = length * 5 / 4 + 1)
        assert_int_equal(~sum_by_instruction(~UINT32_C(0), bytes, length),
                         sum_bit_by_bit(bytes, length));
    free(bytes);
#else
    skip();
#endif
}

#if defined(__x86_64__)
#define BESIDE_TEST_BYTES (((size_t)10 << MOST_BESIDE_PART_LOG2) + LEAST_BESIDE + 64)

/* Every block is a multiple of the least: all lengths up to two of those, then all within 20 bytes of
 * a multiple. */
static void check_beside_folding(uint32_t start, const unsigned char *bytes)
{
    uint32_t crc = start;
    for (size_t length = 0; length < BESIDE_TEST_BYTES; length++) {
        if (length < 2 * LEAST_BESIDE || (length + 20) % LEAST_BESIDE <= 40)
            assert_int_equal(sum_beside_folding(start, bytes, length), crc);
        crc = add_bit_by_bit(crc, bytes[length]);
    }
}
#endif

static void test_crc_beside_folding(void **state)
{
#if defined(__x86_64__)
    if (sum == sum_beside_folding || sum == sum_by_folding) {
        unsigned char *bytes = random_bytes(BESIDE_TEST_BYTES + 8, 5);
        for (unsigned offset = 0; offset < 8; offset++)
            check_beside_folding(UINT32_C(0x9e3779b9) * offset, bytes + offset);
        check_beside_folding(~UINT32_C(0), bytes + 1);
        free(bytes);
        return;
    }
#endif
    print_message("skipped: this CPU has no VPCLMULQDQ\n");
    skip();
}

static void test_crc_in_parts(void **state)
{
    unsigned char *bytes = random_bytes(CRC_BYTES, 2);
    uint32_t whole = gyre_crc32c(0, bytes, CRC_BYTES);
    for (size_t cut = 0; cut <= CRC_BYTES; cut += 997) {
        uint32_t a = gyre_crc32c(0, bytes, cut), b = gyre_crc32c(0, bytes + cut, CRC_BYTES - cut);
        assert_int_equal(gyre_crc32c(a, bytes + cut, CRC_BYTES - cut), whole);
        assert_int_equal(gyre_crc32c_combine(a, b, CRC_BYTES - cut), whole);
    }
    free(bytes);
}

/* Beyond 4 GiB: (a b) zeros is a (b zeros), where a terabyte of zeros is doubled from a page. */
static void test_crc_combines_great_lengths(void **state)
{
    static const unsigned char page[4096];
    uint32_t zeros = gyre_crc32c(0, page, sizeof page);
    size_t length = sizeof page;
    for (; length < (size_t)1 << 40; length *= 2)
        zeros = gyre_crc32c_combine(zeros, zeros, length);
    uint32_t a = gyre_crc32c(0, "a", 1), b = gyre_crc32c(0, "b", 1);
    uint32_t left = gyre_crc32c_combine(a, b, 1);
    uint32_t right = gyre_crc32c_combine(b, zeros, length);
    assert_int_equal(left, gyre_crc32c(0, "ab", 2));
    assert_int_equal(gyre_crc32c_combine(a, right, length + 1),
                     gyre_crc32c_combine(left, zeros, length));
}

/* -- chance ------------------------------------------------------------------------------------ */

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

/* -- sizes and time ---------------------------------------------------------------------------- */

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

static void test_clock_goes_on(void **state)
{
    uint64_t before = gyre_now_ns();
    assert_true(before > 0);
    assert_true(gyre_now_ns() >= before);
}

/* -- lines ------------------------------------------------------------------------------------- */

/* What a child process writes to standard error while it runs `body` with GYRE_LOG=`level`. */
static void capture(const char *level, void (*body)(void), char *text, size_t room)
{
    int end[2];
    size_t length = 0;
    ssize_t got;
    assert_int_equal(pipe(end), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("GYRE_LOG", level, 1);
        dup2(end[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(end[1]);
    while (length + 1 < room && (got = read(end[0], text + length, room - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(end[0]);
    waitpid(child, NULL, 0);
}

static void say_each_level(void)
{
    gyre_log(GYRE_LOG_ERROR, "an error");
    gyre_log_identity(3, 3);
    errno = EBUSY;
    gyre_log(GYRE_LOG_WARN, "a warning %d", 7);
    if (errno != EBUSY)
        gyre_log(GYRE_LOG_ERROR, "errno changed");
    gyre_log_identity(0, 7);
    gyre_log(GYRE_LOG_INFO, "a fact\n");
    gyre_log(GYRE_LOG_DEBUG, "a detail");
}

static void test_log_levels(void **state)
{
    char text[4096], wanted[4096];
    char host[256] = {0}; /* not from the log: it reads its level when it is first used */
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    capture("warn", say_each_level, text, sizeof text);
    snprintf(wanted, sizeof wanted, "gyre[%s]: an error\ngyre[rank 3 @ %s]: a warning 7\n", host,
             host);
    assert_string_equal(text, wanted);
    capture("info", say_each_level, text, sizeof text);
    assert_non_null(strstr(text, "gyre[ranks 0-7 @ "));
    assert_non_null(strstr(text, "]: a fact\n"));
    assert_null(strstr(text, "\n\n"));
    assert_null(strstr(text, "a detail"));
    capture("loud", say_each_level, text, sizeof text);
    assert_non_null(strstr(text, "GYRE_LOG is \"loud\": expected error, warn, info or debug"));
    assert_null(strstr(text, "a fact"));
    assert_string_equal(gyre_host_name(), host);
}

static void say_too_much(void)
{
    static char text[10000];
    memset(text, 'x', sizeof text - 1);
    gyre_log(GYRE_LOG_ERROR, "%s", text);
}

static void test_log_cuts_long_lines(void **state)
{
    char text[8192];
    capture("warn", say_too_much, text, sizeof text);
    size_t length = strlen(text);
    assert_in_range(length, 1024, 4096);
    assert_string_equal(text + length - 5, "x...\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_slow_copies_are_known),
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_first_trouble_wins),
        cmocka_unit_test(test_long_trouble_is_marked),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_size_messages),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_nearest_word),
        cmocka_unit_test(test_nearest_name),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_crc_vectors),
        cmocka_unit_test(test_crc_of_any_length),
        cmocka_unit_test(test_crc_by_table),
        cmocka_unit_test(test_crc_by_instruction),
        cmocka_unit_test(test_crc_beside_folding),
        cmocka_unit_test(test_crc_in_parts),
        cmocka_unit_test(test_crc_combines_great_lengths),
        cmocka_unit_test(test_rng_repeats),
        cmocka_unit_test(test_rng_is_even),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_blocks_cover_the_range),
        cmocka_unit_test(test_hex_goes_there_and_back),
        cmocka_unit_test(test_clock_goes_on),
        cmocka_unit_test(test_log_levels),
        cmocka_unit_test(test_log_cuts_long_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
