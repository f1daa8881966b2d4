/* Text from others, made printable: what a terminal would obey, what is no UTF-8, and cuts. */
#include "base/printable.h"
#include "rig/test.h"

#include <string.h>

static void controls_become_question_marks(void **state)
{
    static const char *const pairs[][2] = {
        {"\x1b[2Jgone", "?[2Jgone"}, /* ESC */
        {"\xc2\x9b"
         "2J",
         "??2J"}, /* CSI among the C1 controls */
        {"\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0"},
        {"a\x7f\r\x01"
         "b",
         "a???b"}, /* DEL, C0 */
        {"\x9b"
         "1m",
         "?1m"},                      /* C1 as one byte */
        {"\xc3", "?"},                /* cut short */
        {"\xc0\x9b", "??"},           /* not the shortest form */
        {"\xed\xa0\x80", "???"},      /* half a surrogate pair */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"Öl, 日本, \xf0\x9f\x8c\x80", "Öl, 日本, \xf0\x9f\x8c\x80"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[64], copy[64];
        strcpy(text, pairs[i][0]);
        assert_string_equal(gyre_printable_line(text), pairs[i][1]);
        strcpy(text, pairs[i][0]);
        assert_string_equal(gyre_printable_lines(text), pairs[i][1]);
        assert_string_equal(gyre_printable(copy, sizeof copy, pairs[i][0]), pairs[i][1]);
    }
}

static void a_line_has_no_newline(void **state)
{
    char one[] = "ok\n\tgyre: forged", more[] = "ok\n\tgyre\r";
    assert_string_equal(gyre_printable_line(one), "ok??gyre: forged");
    assert_string_equal(gyre_printable_lines(more), "ok\n\tgyre?");
}

static void a_long_text_is_cut_between_characters(void **state)
{
    char to[8];
    assert_string_equal(gyre_printable(to, sizeof to, "1234567"), "1234567");
    assert_string_equal(gyre_printable(to, sizeof to, "12345678"), "1234...");
    assert_string_equal(gyre_printable(to, sizeof to,
                                       "12\xe2\x82\xac"
                                       "456"),
                        "12...");
    assert_string_equal(gyre_printable(to, sizeof to,
                                       "1\xe2\x82\xac"
                                       "4567"),
                        "1\xe2\x82\xac...");
    assert_string_equal(gyre_printable(to, sizeof to, ""), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_become_question_marks),
        cmocka_unit_test(a_line_has_no_newline),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
