/* Copies: every byte, and which distances are slow. */
#include "base/copy.h"
#include "base/rng.h"
#include "rig/test.h"

#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_slow_copies_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
