/* Each layer: its outputs by hand or by the plainest loops, its gradients by central differences,
 * what it refuses, and what holds of all: gradients accumulate, an empty batch gives zeros, halves
 * are rounded where they should be. Batch norm's figures are in batch_norm_test.c. */
#include "base/small_floats.h"
#include "unit/model/layers/layer_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INIT(layer, samples, seed)                                                                 \
    struct layer_rig rig;                                                                          \
    layer_rig_init(&rig, &(layer), samples, seed)

static const struct gyre_layer linear = {
    .kind = &gyre_layer_linear, .name = "0", .in = {7, 1, 1}, .outputs = 5};
static const struct gyre_layer convolution = {.kind = &gyre_layer_convolution,
                                              .name = "c",
                                              .in = {2, 5, 4},
                                              .outputs = 3,
                                              .kernel = 3,
                                              .stride = 1,
                                              .padding = 1};
static const struct gyre_layer batch_norm = {.kind = &gyre_layer_batch_norm, .in = {3, 2, 5}};
static const struct gyre_layer pool = {
    .kind = &gyre_layer_max_pool, .in = {2, 5, 7}, .kernel = 2, .stride = 2};

/* -- linear ------------------------------------------------------------------------------------ */

static void test_linear(void **state)
{
    INIT(linear, 6, 1);
    layer_rig_check(&rig, 0.125f, 1e-5);
    assert_string_equal(rig.ready, "bias weight ");
    assert_string_equal(rig.layer.parameter[0].name, "0.weight");
    assert_int_equal(rig.layer.parameter[0].shape[0], 5);
    assert_int_equal(rig.layer.parameter[0].shape[1], 7);
    assert_int_equal(rig.layer.parameter[1].fan_in, 7);
    double sum = (double)rig.layer.parameter[1].value[2];
    for (int i = 0; i < 7; i++)
        sum += (double)rig.x[4 * 7 + i] * (double)rig.layer.parameter[0].value[2 * 7 + i];
    layer_rig_forward(&rig);
    assert_true(fabs((double)rig.y[4 * 5 + 2] - sum) < 1e-6);
    layer_rig_deinit(&rig);
}

/* Small steps, so that no output crosses 0 between them: some do, with any seed, if they may. */
static void test_linear_relu(void **state)
{
    struct gyre_layer layer = linear;
    layer.relu = true;
    INIT(layer, 6, 2);
    layer_rig_check(&rig, 0x1p-10f, 2e-4);
    bool some = false;
    for (size_t i = 0; i < rig.out; i++) {
        assert_true(rig.y[i] >= 0);
        some |= rig.y[i] == 0;
    }
    assert_true(some);
    layer_rig_deinit(&rig);
}

static void test_linear_in_halves(void **state)
{
    for (int precision = 1; precision < 3; precision++) {
        INIT(linear, 2, 3);
        rig.pass.precision = (enum gyre_precision)precision;
        layer_rig_forward(&rig);
        double sum = (double)rig.layer.parameter[1].value[4], exact = sum;
        for (int i = 0; i < 7; i++) {
            float x = rig.x[7 + i], w = rig.layer.parameter[0].value[4 * 7 + i];
            exact += (double)x * (double)w;
            if (precision == GYRE_PRECISION_BF16)
                sum += (double)gyre_f32_of_bf16(gyre_bf16_of_f32(x)) *
                       (double)gyre_f32_of_bf16(gyre_bf16_of_f32(w));
            else
                sum += (double)gyre_f32_of_f16(gyre_f16_of_f32(x)) *
                       (double)gyre_f32_of_f16(gyre_f16_of_f32(w));
        }
        assert_true(fabs((double)rig.y[9] - sum) < 1e-6);
        assert_true(fabs((double)rig.y[9] - exact) > 1e-5);
        assert_int_equal(layer_rig_backward(&rig, rig.dy), 0);
        layer_rig_deinit(&rig);
    }
}

/* -- convolution ------------------------------------------------------------------------------- */

static double plain_convolution(const struct layer_rig *rig, size_t sample, size_t output, int y,
                                int x)
{
    const struct gyre_layer *l = &rig->layer;
    const int k = (int)l->kernel, h = (int)l->in.height, w = (int)l->in.width;
    double sum = (double)l->parameter[1].value[output];
    for (size_t c = 0; c < l->in.channels; c++)
        for (int ky = 0; ky < k; ky++)
            for (int kx = 0; kx < k; kx++) {
                int iy = y + ky - (int)l->padding, ix = x + kx - (int)l->padding;
                if (iy < 0 || iy >= h || ix < 0 || ix >= w)
                    continue;
                size_t at =
                    (((sample * l->in.channels + c) * l->in.height) + (size_t)iy) * l->in.width +
                    (size_t)ix;
                size_t in_kernel =
                    ((output * l->in.channels + c) * l->kernel + (size_t)ky) * l->kernel +
                    (size_t)kx;
                sum += (double)rig->x[at] * (double)l->parameter[0].value[in_kernel];
            }
    return sum;
}

static void check_convolution(struct layer_rig *rig)
{
    const struct gyre_volume out = rig->layer.out;
    layer_rig_forward(rig);
    for (size_t i = 0; i < rig->out; i++) {
        size_t x = i % out.width, y = i / out.width % out.height;
        size_t o = i / out.width / out.height % out.channels, s = i / gyre_volume_count(out);
        double wanted = plain_convolution(rig, s, o, (int)y, (int)x);
        if (!(fabs((double)rig->y[i] - wanted) < 1e-5))
            fail_msg("y[%zu] is %g, wanted %g", i, (double)rig->y[i], wanted);
    }
}

static void test_convolution(void **state)
{
    INIT(convolution, 2, 4);
    check_convolution(&rig);
    layer_rig_check(&rig, 0.125f, 1e-5);
    assert_string_equal(rig.ready, "bias weight ");
    assert_string_equal(rig.layer.parameter[0].name, "c.weight");
    assert_int_equal(rig.layer.parameter[0].dims, 4);
    assert_int_equal(rig.layer.parameter[0].fan_in, 18);
    layer_rig_deinit(&rig);
}

/* Kernels as large as the padded image, larger than the image, of one element, without padding. */
static void test_convolution_edges(void **state)
{
    static const size_t sizes[][4] = {{5, 5, 2, 5}, {1, 1, 2, 5}, {1, 6, 2, 5}, {4, 3, 0, 1},
                                      {4, 3, 0, 3}, {2, 2, 2, 3}, {3, 9, 1, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct gyre_layer layer = convolution;
        layer.in = (struct gyre_volume){2, sizes[i][0], sizes[i][1]};
        layer.padding = sizes[i][2];
        layer.kernel = sizes[i][3];
        INIT(layer, 2, 5 + i);
        check_convolution(&rig);
        layer_rig_check(&rig, 0.125f, 1e-5);
        rig.pass.precision = GYRE_PRECISION_BF16;
        assert_int_equal(layer_rig_backward(&rig, rig.dy), 0);
        layer_rig_deinit(&rig);
    }
}

/* -- the others -------------------------------------------------------------------------------- */

static void test_batch_norm_gradient(void **state)
{
    INIT(batch_norm, 4, 6);
    layer_rig_check(&rig, 0x1p-7f, 1e-3);
    assert_string_equal(rig.ready, "bias weight ");
    layer_rig_deinit(&rig);
}

/* Values that lie apart, so that a step changes no order. */
static void test_max_pool(void **state)
{
    INIT(pool, 2, 7);
    for (size_t i = 0; i < rig.in; i++)
        rig.x[i] = (float)(i * 37 % rig.in) * 0.25f;
    layer_rig_check(&rig, 0.0625f, 1e-5);
    assert_int_equal(rig.layer.out.height, 2);
    assert_int_equal(rig.layer.out.width, 3);
    for (size_t i = 0; i < 140; i++)
        rig.x[i] = 1;
    rig.x[8] = NAN; /* row 1, column 1 */
    layer_rig_forward(&rig);
    assert_true(isnan(rig.y[0]) && rig.y[1] == 1);
    layer_rig_backward(&rig, rig.dy);
    assert_true(rig.dx[8] == rig.dy[0] && rig.dx[0] == 0);
    assert_true(rig.dx[2] == rig.dy[1] && rig.dx[3] == 0 &&
                rig.dx[9] == 0); /* the first of equals */
    layer_rig_deinit(&rig);
}

static void test_relu(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_relu, .in = {3, 4, 5}};
    INIT(layer, 2, 8);
    for (size_t i = 0; i < rig.in; i++)
        rig.x[i] += rig.x[i] < 0 ? -0.5f : 0.5f;
    layer_rig_check(&rig, 0.125f, 1e-5);
    layer_rig_deinit(&rig);
}

static void test_flatten(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_flatten, .in = {3, 4, 5}};
    INIT(layer, 2, 9);
    layer_rig_check(&rig, 0.125f, 1e-5);
    assert_int_equal(rig.layer.out.channels, 60);
    assert_int_equal(rig.layer.out.width, 1);
    layer_rig_deinit(&rig);
}

/* -- what holds of all ------------------------------------------------------------------------- */

static void check_accumulates(const struct gyre_layer *layer)
{
    INIT(*layer, 3, 10);
    float *dy = malloc(rig.out * sizeof *dy), first[3][1024];
    assert_non_null(dy);
    memcpy(dy, rig.dy, rig.out * sizeof *dy);
    for (int turn = 0; turn < 3; turn++) {
        rig.pass.accumulate = turn == 1;
        rig.pass.samples = turn == 2 ? 0 : 3;
        memcpy(rig.dy, dy, rig.out * sizeof *dy);
        layer_rig_forward(&rig);
        assert_int_equal(layer_rig_backward(&rig, rig.dy), 0);
        for (int p = 0; p < rig.layer.parameter_count; p++) {
            struct gyre_parameter *parameter = &rig.layer.parameter[p];
            for (size_t i = 0; i < parameter->count; i++) {
                double got = (double)parameter->gradient[i], one = (double)first[p][i];
                if (turn == 0)
                    first[p][i] = parameter->gradient[i];
                else
                    assert_true(fabs(got - (turn == 1 ? 2 * one : 0)) <= 1e-5 * (1 + fabs(one)));
            }
        }
    }
    free(dy);
    layer_rig_deinit(&rig);
}

static void test_accumulate_and_empty(void **state)
{
    check_accumulates(&linear);
    check_accumulates(&convolution);
    check_accumulates(&batch_norm);
    check_accumulates(&pool);
}

static void refuse(struct gyre_layer layer, const char *words)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(layer.kind->shape(&layer, 4, &trouble), GYRE_INVALID);
    if (!strstr(trouble.text, words))
        fail_msg("\"%s\" does not say \"%s\"", trouble.text, words);
}

static void test_refused(void **state)
{
    struct gyre_layer layer = linear;
    layer.outputs = 0;
    refuse(layer, "linear layer 0: 7 inputs and 0 outputs");
    layer = convolution;
    layer.stride = 2;
    refuse(layer, "convolution c: a kernel of 3, stride 2");
    layer = convolution;
    layer.in.height = 0;
    refuse(layer, "from 2 x 0 x 4");
    layer = pool;
    layer.in.width = 1;
    refuse(layer, "on 5 x 1");
    layer = batch_norm;
    layer.in.channels = 0;
    refuse(layer, "its input is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_relu),
        cmocka_unit_test(test_linear_in_halves),
        cmocka_unit_test(test_convolution),
        cmocka_unit_test(test_convolution_edges),
        cmocka_unit_test(test_batch_norm_gradient),
        cmocka_unit_test(test_max_pool),
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_flatten),
        cmocka_unit_test(test_accumulate_and_empty),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
