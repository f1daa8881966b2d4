/* The words for drivers: all of them, once, in one order. */
#include "rig/test.h"
#include "transport/link/table.h"
#include "transport/link/words.h"

#include <string.h>

static void every_driver_has_its_word(void **state)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int count = gyre_link_words(words), drivers = 0;
    assert_string_equal(words[0], "auto");
    for (int i = 2; i < count; i++)
        assert_true(strcmp(words[i - 1], words[i]) < 0);
    for (; gyre_drivers[drivers]; drivers++) {
        const struct gyre_driver *driver = gyre_drivers[drivers];
        int i = 1;
        while (i < count && strcmp(words[i], driver->name))
            i++;
        assert_in_range(i, 1, count - 1);
        assert_int_equal(gyre_link_word_maps(driver->name), driver->mapped);
        assert_int_equal(gyre_link_word_sends(driver->name), !driver->mapped);
    }
    assert_int_equal(count, drivers + 1);
}

static void auto_is_no_driver(void **state)
{
    assert_false(gyre_link_word_maps("auto"));
    assert_false(gyre_link_word_sends("auto"));
}

static void the_text_has_them_all(void **state)
{
    const char *words[GYRE_LINK_WORDS_MOST];
    int count = gyre_link_words(words);
    char text[64], tight[8], expected[64] = "auto";
    for (int i = 1; i < count; i++) {
        strcat(expected, i + 1 < count ? ", " : " or ");
        strcat(expected, words[i]);
    }
    assert_string_equal(gyre_link_words_text(text, sizeof text), expected);
    expected[sizeof tight - 1] = '\0';
    assert_string_equal(gyre_link_words_text(tight, sizeof tight), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_driver_has_its_word),
        cmocka_unit_test(auto_is_no_driver),
        cmocka_unit_test(the_text_has_them_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
