/* CRC-32C against its definition, by every way of summing. */
#include "base/crc.c" /* for both ways of summing: the CPU chooses one */
#include "base/rng.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

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

/* Every block is a multiple of the least: all lengths up to two of those, then all within 20 bytes
 * of a multiple. */
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
        uint32_t first = gyre_crc32c(0, bytes, cut);
        assert_int_equal(gyre_crc32c(first, bytes + cut, CRC_BYTES - cut), whole);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc_vectors),        cmocka_unit_test(test_crc_of_any_length),
        cmocka_unit_test(test_crc_by_table),       cmocka_unit_test(test_crc_by_instruction),
        cmocka_unit_test(test_crc_beside_folding), cmocka_unit_test(test_crc_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
