/* Losses against figures worked out by hand, their gradients against differences, and labels that
 * no model has. */
#include "model/learning/loss.h"
#include "rig/test.h"

#include <math.h>
#include <string.h>

static struct gyre_processor *on;

/* The loss of rows that one meter saw, added to *loss. */
static int cross_entropy(const float *outputs, const int64_t *labels, size_t samples, size_t width,
                         float factor, float *gradient, struct gyre_loss *loss,
                         struct gyre_trouble *trouble)
{
    struct gyre_loss_meter meter;
    assert_int_equal(gyre_loss_meter_init(&meter, on, samples, width, trouble), 0);
    int status =
        gyre_loss_cross_entropy(&meter, outputs, labels, samples, factor, gradient, trouble);
    assert_int_equal(gyre_loss_meter_take(&meter, loss, trouble), 0);
    gyre_loss_meter_deinit(&meter);
    return status;
}

static void squared_error(const float *outputs, const float *targets, size_t samples, size_t width,
                          float factor, float *gradient, struct gyre_loss *loss)
{
    struct gyre_loss_meter meter;
    assert_int_equal(gyre_loss_meter_init(&meter, on, samples, width, NULL), 0);
    gyre_loss_squared_error(&meter, outputs, targets, samples, factor, gradient, NULL);
    gyre_loss_squared_error(&meter, outputs, targets, samples, factor, gradient, NULL);
    gyre_loss_meter_clear(&meter); /* forgets both */
    gyre_loss_squared_error(&meter, outputs, targets, samples, factor, gradient, NULL);
    assert_int_equal(gyre_loss_meter_take(&meter, loss, NULL), 0);
    gyre_loss_meter_deinit(&meter);
}

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%.9g is not within %g of %.9g", got, tolerance, wanted);
}

/* Softmax of 0, ln 2, ln 5 is 1/8, 2/8, 5/8. */
static void test_cross_entropy(void **state)
{
    const float outputs[6] = {0, logf(2), logf(5), 3, 3, 3};
    float gradient[6];
    struct gyre_loss loss = {.sum = 100, .samples = 1, .right = 1};
    assert_int_equal(cross_entropy(outputs, (int64_t[]){1, 0}, 2, 3, 4, gradient, &loss, NULL), 0);
    assert_near(loss.sum, 100 + log(4) + log(3), 1e-6);
    assert_int_equal(loss.samples, 3);
    assert_int_equal(loss.right, 2); /* of three equal outputs the first is taken */
    assert_near((double)gradient[0], 0.5, 1e-6);
    assert_near((double)gradient[1], -3, 1e-6);
    assert_near((double)gradient[2], 2.5, 1e-6);
    assert_near((double)gradient[3], 4.0 / 3 - 4, 1e-6);
    cross_entropy(outputs + 3, (int64_t[]){2}, 1, 3, 1, gradient, &loss, NULL);
    assert_int_equal(loss.right, 2);
}

static void test_wrong_label(void **state)
{
    const int64_t bad[] = {3, -1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        struct gyre_trouble trouble = {0};
        struct gyre_loss loss = {0};
        float gradient[6] = {7, 7, 7, 7, 7, 7}, outputs[6] = {0};
        assert_int_equal(
            cross_entropy(outputs, (int64_t[]){2, bad[i]}, 2, 3, 1, gradient, &loss, &trouble),
            GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "of sample 1 of the batch is outside 0 to 2"));
        assert_true(loss.samples == 0 && loss.sum == 0 && gradient[0] == 7);
    }
}

static void test_not_a_number(void **state)
{
    struct gyre_loss loss = {0};
    float gradient[2];
    cross_entropy((float[]){NAN, 0}, (int64_t[]){0}, 1, 2, 1, gradient, &loss, NULL);
    assert_true(isnan(loss.sum) && loss.right == 0);
}

static void test_squared_error(void **state)
{
    float gradient[4];
    struct gyre_loss loss = {0};
    squared_error((float[]){1, 2, 3, 4}, (float[]){0, 4, 3, 1}, 2, 2, 2, gradient, &loss);
    assert_near(loss.sum, 2.5 + 4.5, 1e-12);
    assert_int_equal(loss.samples, 2);
    assert_memory_equal(gradient, ((float[]){2, -4, 0, 6}), sizeof gradient);
}

/* -- differences ------------------------------------------------------------------------------- */

enum { SAMPLES = 4, WIDTH = 5 };

static double loss_of(const float *outputs, bool squared, float *gradient)
{
    static const int64_t label[SAMPLES] = {4, 0, 2, 2};
    static const float wanted[SAMPLES * WIDTH] = {0.5f, -1, 2, [7] = 3, [19] = -0.25f};
    struct gyre_loss loss = {0};
    if (squared)
        squared_error(outputs, wanted, SAMPLES, WIDTH, 1, gradient, &loss);
    else
        assert_int_equal(cross_entropy(outputs, label, SAMPLES, WIDTH, 1, gradient, &loss, NULL),
                         0);
    return loss.sum;
}

/* Central ones; steps are powers of two, so that outputs hold them exactly. */
static void test_gradients(void **state)
{
    const float step = 0x1p-6f;
    float outputs[SAMPLES * WIDTH], gradient[SAMPLES * WIDTH], unread[SAMPLES * WIDTH];
    for (int i = 0; i < SAMPLES * WIDTH; i++)
        outputs[i] = (float)(i * 7 % 11) * 0.375f - 2;
    for (int squared = 0; squared < 2; squared++) {
        loss_of(outputs, squared, gradient);
        for (int i = 0; i < SAMPLES * WIDTH; i++) {
            const float old = outputs[i];
            outputs[i] = old + step;
            double high = loss_of(outputs, squared, unread);
            outputs[i] = old - step;
            double low = loss_of(outputs, squared, unread);
            outputs[i] = old;
            assert_near((double)gradient[i], (high - low) / (2 * (double)step), 1e-4);
        }
    }
}

static int open_processor(void **state)
{
    return gyre_processor_open(&on, GYRE_MEMORY_HOST, 0, NULL);
}

static int close_processor(void **state)
{
    gyre_processor_close(on);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),     cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_wrong_label),   cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_squared_error),
    };
    return cmocka_run_group_tests(tests, open_processor, close_processor);
}
