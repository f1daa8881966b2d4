/* The learning rate at its corners: where the warm-up ends, where a step falls, where the cosine
 * begins, has its middle and ends; and settings that make no sense. */
#include "model/learning/learning_rate.h"
#include "rig/test.h"

#include <math.h>
#include <string.h>

static void assert_rate(const struct gyre_learning_rate *settings, uint64_t step, double wanted)
{
    double got = gyre_learning_rate_at(settings, step);
    if (!(fabs(got - wanted) <= 1e-12))
        fail_msg("step %llu has %.15g, wanted %.15g", (unsigned long long)step, got, wanted);
}

static void test_constant(void **state)
{
    struct gyre_learning_rate s = {.size = sizeof s, .rate = 0.8};
    assert_rate(&s, 0, 0.8);
    assert_rate(&s, 1000000, 0.8);
    s.warmup = 4;
    assert_rate(&s, 0, 0.2);
    assert_rate(&s, 3, 0.8);
    assert_rate(&s, 4, 0.8);
}

static void test_step(void **state)
{
    const struct gyre_learning_rate s = {
        .size = sizeof s, .kind = GYRE_RATE_STEP, .rate = 1, .warmup = 2, .every = 3, .gamma = 0.5};
    assert_rate(&s, 1, 1);
    assert_rate(&s, 4, 1);
    assert_rate(&s, 5, 0.5);
    assert_rate(&s, 8, 0.25);
}

static void test_cosine(void **state)
{
    const struct gyre_learning_rate s = {.size = sizeof s,
                                         .kind = GYRE_RATE_COSINE,
                                         .rate = 1,
                                         .warmup = 10,
                                         .total = 110,
                                         .least = 0.2};
    assert_rate(&s, 9, 1);
    assert_rate(&s, 10, 1);
    assert_rate(&s, 35, 0.2 + 0.4 * (1 + sqrt(0.5)));
    assert_rate(&s, 60, 0.6);
    assert_rate(&s, 110, 0.2);
    assert_rate(&s, UINT64_MAX, 0.2);
}

static void refuse(struct gyre_learning_rate settings, const char *words)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_rate_check(&settings, &trouble), GYRE_INVALID);
    if (!strstr(trouble.text, words))
        fail_msg("\"%s\" does not say \"%s\"", trouble.text, words);
}

static void test_refused(void **state)
{
    const struct gyre_learning_rate good = {
        .size = sizeof good, .kind = GYRE_RATE_COSINE, .rate = 1, .warmup = 5, .total = 6};
    assert_int_equal(gyre_rate_check(&good, NULL), 0);
    struct gyre_learning_rate s = good;
    s.total = 5;
    refuse(s, "in 5 steps after 5 of warm-up");
    s = good;
    s.least = 2;
    refuse(s, "from 1 to 2");
    s.rate = NAN;
    refuse(s, "learning rate nan");
    s = (struct gyre_learning_rate){
        .size = sizeof s, .kind = GYRE_RATE_STEP, .rate = 1, .gamma = 0.1};
    refuse(s, "times 0.1 every 0 steps");
    s = good;
    s.kind = (enum gyre_rate_kind)3;
    refuse(s, "of kind 3");
    s = good;
    s.size--;
    refuse(s, "gyre_learning_rate.size is ");
}

/* A program's own: defaults, a story of a refusal, and no division by 0. */
static void test_public(void **state)
{
    struct gyre_learning_rate rate = GYRE_LEARNING_RATE_INIT;
    assert_int_equal(gyre_learning_rate_check(&rate), 0);
    assert_rate(&rate, 7, 0.01);
    rate.kind = GYRE_RATE_STEP;
    assert_int_equal(gyre_learning_rate_check(&rate), GYRE_INVALID);
    assert_non_null(strstr(gyre_thread_trouble()->text, "every 0 steps"));
    assert_true(isnan(gyre_learning_rate_at(&rate, 0)));
    assert_int_equal(gyre_learning_rate_check(NULL), GYRE_INVALID);
    assert_non_null(strstr(gyre_thread_trouble()->text, "is NULL"));
    assert_true(isnan(gyre_learning_rate_at(NULL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant), cmocka_unit_test(test_step),
        cmocka_unit_test(test_cosine),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_public),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
