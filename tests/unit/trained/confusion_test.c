/* Confusion matrices: figures worked out by hand, and those that do not exist. */
#include "rig/test.h"
#include "trained/confusion.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

/*              taken for   0  1  2
 *     of label 0           3  1  0
 *              1           2  4  0
 *              2           0  0  0     class 3: never there, and nothing is taken for it */
static void figures_are_those_of_the_textbook(void **state)
{
    static const uint64_t counts[3][3] = {{3, 1, 0}, {2, 4, 0}, {0, 0, 0}};
    struct gyre_confusion c;
    (void)state;
    assert_int_equal(gyre_confusion_init(&c, 3, NULL), 0);
    for (uint64_t l = 0; l < 3; l++)
        for (uint64_t k = 0; k < 3; k++)
            for (uint64_t i = 0; i < counts[l][k]; i++)
                gyre_confusion_add(&c, l, k);
    assert_int_equal(c.samples, 10);
    assert_int_equal(c.right, 7);
    assert_int_equal(gyre_confusion_labelled(&c, 0), 4);
    assert_int_equal(gyre_confusion_taken(&c, 0), 5);
    assert_true(near(gyre_confusion_precision(&c, 0), 3 / 5.0));
    assert_true(near(gyre_confusion_recall(&c, 0), 3 / 4.0));
    assert_true(near(gyre_confusion_f1(&c, 0), 2 * 0.6 * 0.75 / (0.6 + 0.75)));
    assert_true(near(gyre_confusion_precision(&c, 1), 4 / 5.0));
    assert_true(near(gyre_confusion_recall(&c, 1), 4 / 6.0));
    assert_true(gyre_confusion_precision(&c, 2) < 0 && gyre_confusion_recall(&c, 2) < 0);
    assert_true(gyre_confusion_f1(&c, 2) < 0);
    gyre_confusion_deinit(&c);
}

/* Of a class that is there, and never right. */
static void a_class_that_is_never_right_has_an_f1_of_0(void **state)
{
    struct gyre_confusion c;
    (void)state;
    assert_int_equal(gyre_confusion_init(&c, 2, NULL), 0);
    gyre_confusion_add(&c, 0, 1);
    assert_true(near(gyre_confusion_f1(&c, 0), 0));
    assert_true(gyre_confusion_precision(&c, 0) < 0);
    assert_true(near(gyre_confusion_recall(&c, 0), 0));
    gyre_confusion_deinit(&c);
    gyre_confusion_deinit(&c);
}

static void too_many_classes_are_told(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_confusion c;
    (void)state;
    assert_int_equal(gyre_confusion_init(&c, UINT64_C(1) << 40, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "of 1099511627776 classes"));
    gyre_confusion_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_the_textbook),
        cmocka_unit_test(a_class_that_is_never_right_has_an_f1_of_0),
        cmocka_unit_test(too_many_classes_are_told),
    };
    return cmocka_run_group_tests_name("confusion", tests, NULL, NULL);
}
