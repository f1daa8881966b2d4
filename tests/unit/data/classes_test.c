/* Names of classes: their order, what is refused, and the way into a text and back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/classes.h"
#include "rig/test.h"

static struct gyre_trouble trouble;

static int classes_of(struct gyre_classes *classes, const char *const *label, uint64_t labels)
{
    trouble = (struct gyre_trouble){0};
    return gyre_classes_of(classes, "t.csv", (char *const *)(uintptr_t)label, labels, &trouble);
}

static int64_t number_of(const struct gyre_classes *classes, const char *label)
{
    int64_t number;
    return gyre_classes_find(classes, label, &number) ? number : -1;
}

static void names_are_sorted_once_each(void **state)
{
    static const char *const labels[] = {"b", "10", "a", "9", "b", "!Z", "-3", "a"};
    static const char *const sorted[] = {"-3", "9", "10", "!Z", "a", "b"};
    struct gyre_classes classes;
    (void)state;
    assert_int_equal(classes_of(&classes, labels, 8), 0);
    assert_int_equal(classes.count, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(classes.name[i], sorted[i]);
        assert_int_equal(number_of(&classes, sorted[i]), i);
    }
    assert_int_equal(number_of(&classes, "c"), -1);
    gyre_classes_deinit(&classes);
    gyre_classes_deinit(&classes);
}

static void numbers_from_0_have_no_names(void **state)
{
    static const char *const plain[] = {"2", "0", "7"}, *const from1[] = {"1", "2", "1"},
                             *const mixed[] = {"0", "1", "none"},
                             *const large[] = {"0", "2147483648"};
    struct gyre_classes classes;
    (void)state;
    assert_int_equal(classes_of(&classes, plain, 3), 0);
    assert_int_equal(classes.count, 0);
    assert_int_equal(number_of(&classes, "7"), 7);
    assert_int_equal(number_of(&classes, "2147483648"), -1);
    assert_int_equal(number_of(&classes, "-1"), -1);
    assert_int_equal(classes_of(&classes, from1, 3), 0);
    assert_int_equal(classes.count, 2);
    gyre_classes_deinit(&classes);
    assert_int_equal(classes_of(&classes, mixed, 3), 0);
    assert_int_equal(classes.count, 3);
    gyre_classes_deinit(&classes);
    assert_int_equal(classes_of(&classes, large, 2), 0);
    assert_int_equal(classes.count, 2);
    gyre_classes_deinit(&classes);
}

static void what_are_no_classes_is_refused(void **state)
{
    static const char *const real[] = {"0", "1.5"};
    static char text[100][8];
    const char *each[100];
    struct gyre_classes classes;
    (void)state;
    assert_int_equal(classes_of(&classes, real, 2), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "t.csv: the label \"1.5\" is no class"));
    for (int i = 0; i < 100; i++) {
        snprintf(text[i], sizeof text[i], "id%d", i);
        each[i] = text[i];
    }
    assert_int_equal(classes_of(&classes, each, 100), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "100 rows have 100 different labels, such as \"id0\""));
    each[99] = each[0];
    assert_int_equal(classes_of(&classes, each, 100), 0);
    gyre_classes_deinit(&classes);
}

static void a_text_holds_all_names(void **state)
{
    static const char *const labels[] = {"a b", "c,d", "\"", "é"};
    struct gyre_classes classes, again, copy;
    (void)state;
    assert_int_equal(classes_of(&classes, labels, 4), 0);
    char *text = gyre_classes_text(&classes);
    assert_int_equal(gyre_classes_read(&again, text, &trouble), 0);
    assert_int_equal(gyre_classes_copy(&copy, &again, &trouble), 0);
    assert_int_equal(copy.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(again.name[i], classes.name[i]);
        assert_string_equal(copy.name[i], classes.name[i]);
    }
    free(text);
    gyre_classes_deinit(&classes);
    gyre_classes_deinit(&again);
    gyre_classes_deinit(&copy);
    assert_int_equal(gyre_classes_copy(&copy, &again, &trouble), 0);
    assert_int_equal(copy.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_sorted_once_each),
        cmocka_unit_test(numbers_from_0_have_no_names),
        cmocka_unit_test(what_are_no_classes_is_refused),
        cmocka_unit_test(a_text_holds_all_names),
    };
    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
