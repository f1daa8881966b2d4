/* The loss scale over thousands of steps, as torch.amp's GradScaler moves it, and calls in an order
 * that it refuses. */
#include "model/learning/scaler.h"
#include "rig/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* One whole step; true if the optimiser may go. */
static bool step(struct gyre_scaler *scaler, bool finite)
{
    float factor;
    bool skip;
    assert_int_equal(gyre_scaler_unscale(scaler, finite, &factor, NULL), 0);
    assert_true(factor == 1 / gyre_scaler_scale(scaler));
    assert_int_equal(gyre_scaler_step(scaler, &skip, NULL), 0);
    assert_int_equal(gyre_scaler_update(scaler, NULL), 0);
    return !skip;
}

/* Overflow in steps 0 and 1: 16384, again 32768 after step 2001 and 65536 after step 4001. */
static void test_trace(void **state)
{
    struct gyre_scaler scaler;
    gyre_scaler_init(&scaler, true);
    assert_true(gyre_scaler_scale(&scaler) == 65536);
    for (int i = 0; i <= 4001; i++) {
        assert_int_equal(step(&scaler, i > 1), i > 1);
        float wanted = i == 0 ? 32768 : i < 2001 ? 16384 : i < 4001 ? 32768 : 65536;
        assert_true(scaler.scale == wanted);
    }
    assert_int_equal(scaler.growth_tracker, 0);
    step(&scaler, true);
    assert_int_equal(scaler.growth_tracker, 1);
    step(&scaler, false);
    assert_int_equal(scaler.growth_tracker, 0);
}

/* What a checkpoint keeps is enough to go on as if nothing had been. */
static void test_goes_on(void **state)
{
    struct gyre_scaler one, two;
    gyre_scaler_init(&one, true);
    for (int i = 0; i < 1999; i++)
        step(&one, i != 5);
    gyre_scaler_init(&two, true);
    two.scale = one.scale;
    two.growth_tracker = one.growth_tracker;
    for (int i = 0; i < 10; i++) {
        step(&one, true);
        step(&two, true);
        assert_true(one.scale == two.scale && one.growth_tracker == two.growth_tracker);
    }
    assert_true(one.scale == 65536);
}

static void test_ends_of_the_range(void **state)
{
    struct gyre_scaler scaler;
    gyre_scaler_init(&scaler, true);
    for (int i = 0; i < 20; i++)
        step(&scaler, false);
    assert_true(scaler.scale == 0.0625f); /* no lower bound */
    scaler.scale = FLT_MAX / 1.5f;
    scaler.growth_interval = 1;
    step(&scaler, true);
    assert_true(scaler.scale == FLT_MAX / 1.5f && scaler.growth_tracker == 0);
}

static void test_disabled(void **state)
{
    struct gyre_scaler scaler;
    gyre_scaler_init(&scaler, false);
    assert_true(gyre_scaler_scale(&scaler) == 1);
    assert_true(step(&scaler, false));
    assert_true(scaler.scale == 65536 && scaler.growth_tracker == 0);
}

static void assert_says(int status, struct gyre_trouble *trouble, const char *words)
{
    assert_int_equal(status, GYRE_INVALID);
    if (!strstr(trouble->text, words))
        fail_msg("\"%s\" does not say \"%s\"", trouble->text, words);
    memset(trouble, 0, sizeof *trouble);
}

static void test_order(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_scaler scaler;
    float factor;
    bool skip;
    gyre_scaler_init(&scaler, true);
    assert_says(gyre_scaler_step(&scaler, &skip, &trouble), &trouble, "still scaled");
    assert_says(gyre_scaler_update(&scaler, &trouble), &trouble, "nothing to update");
    assert_int_equal(gyre_scaler_unscale(&scaler, true, &factor, &trouble), 0);
    assert_says(gyre_scaler_unscale(&scaler, true, &factor, &trouble), &trouble,
                "unscaled already");
    assert_int_equal(gyre_scaler_step(&scaler, &skip, &trouble), 0);
    assert_says(gyre_scaler_step(&scaler, &skip, &trouble), &trouble, "taken already");
    assert_int_equal(gyre_scaler_update(&scaler, &trouble), 0);
    assert_int_equal(gyre_scaler_check(&scaler, &trouble), 0);
    scaler.backoff_factor = 1;
    assert_says(gyre_scaler_check(&scaler, &trouble), &trouble, "times 1 after a bad one");
    gyre_scaler_init(&scaler, true);
    scaler.scale = INFINITY;
    assert_says(gyre_scaler_check(&scaler, &trouble), &trouble, "loss scale inf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_ends_of_the_range),
        cmocka_unit_test(test_disabled),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
