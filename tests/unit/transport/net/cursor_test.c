/* Fields in bounded bytes: nothing is read beyond, no bytes may be NULL, texts are printable. */
#include "rig/test.h"

#include "transport/net/cursor.h"

static void fields_come_back(void **state)
{
    uint8_t bytes[16];
    char text[8], word[8] = "Öl\n";
    struct gyre_cursor out = gyre_cursor_over(bytes, sizeof bytes), in = out;
    gyre_put_u64(&out, 0x123456, 3);
    gyre_put_text(&out, word, sizeof word);
    assert_int_equal(gyre_get_u64(&in, 3), 0x123456);
    gyre_get_text(&in, text, sizeof text);
    assert_string_equal(text, "Öl\n");
    assert_true(!in.bad && in.at == out.at);
}

/* Neither step leads away from NULL: clang's pointer-overflow sanitizer looks. */
static void no_bytes_may_be_nowhere(void **state)
{
    struct gyre_cursor cursor = gyre_cursor_over(NULL, 0);
    assert_null(gyre_cursor_skip(&cursor, 0));
    assert_false(cursor.bad);
    assert_int_equal(gyre_get_u64(&cursor, 8), 0);
    assert_true(cursor.bad);
}

static void what_is_too_long_is_bad(void **state)
{
    uint8_t bytes[16] = {9, 0, 'a'};
    char text[8] = "before";
    struct gyre_cursor in = gyre_cursor_over(bytes, sizeof bytes);
    gyre_get_text(&in, text, sizeof text);
    assert_true(in.bad);
    assert_string_equal(text, "");
    in = gyre_cursor_over(bytes, 8); /* 9 bytes are announced, 6 are there */
    char wide[32];
    gyre_get_text(&in, wide, sizeof wide);
    assert_true(in.bad);
}

static void texts_of_peers_are_printable(void **state)
{
    uint8_t bytes[32];
    char text[24], hostile[24] = "\x1b[2J\xc2\x9b"
                                 "2J\x7f\xff\nmore";
    struct gyre_cursor out = gyre_cursor_over(bytes, sizeof bytes), in = out;
    gyre_put_text(&out, hostile, sizeof hostile);
    gyre_get_text(&in, text, sizeof text);
    assert_string_equal(text, "?[2J??2J??\nmore");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_back),
        cmocka_unit_test(no_bytes_may_be_nowhere),
        cmocka_unit_test(what_is_too_long_is_bad),
        cmocka_unit_test(texts_of_peers_are_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
