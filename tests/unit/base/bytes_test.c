/* Hexadecimal digits: every byte there and back, and every character that is no digit. */
#include "base/bytes.h"
#include "rig/test.h"

#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hex_goes_there_and_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
