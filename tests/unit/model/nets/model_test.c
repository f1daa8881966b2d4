/* Whole models: their parameters' names and shapes, gradients by central differences through all
 * layers, batches in parts against batches at once, precisions, and what is refused. Trainings are
 * in golden_test.c. */
#include "base/rng.h"
#include "model/learning/init.h"
#include "model/learning/loss.h"
#include "model/nets/model.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOATS_MOST 40000
#define BATCH       12

static struct gyre_rng rng;
static struct gyre_trouble trouble;
static float values[FLOATS_MOST], gradients[FLOATS_MOST];
static double buffers[400];
static char ready[512];

/* Gives the model its memory and initial values; returns how many parameters it has in all. */
static size_t own(struct gyre_model *model)
{
    struct gyre_parameter *const *parameter;
    struct gyre_running_buffer *const *buffer;
    size_t floats = 0, more = 0;
    int count = gyre_model_parameters(model, &parameter);
    for (int p = 0; p < count; floats += parameter[p++]->count) {
        parameter[p]->value = values + floats;
        parameter[p]->gradient = gradients + floats;
    }
    assert_true(floats <= FLOATS_MOST);
    gyre_init_parameters(parameter, count, 1);
    count = gyre_model_buffers(model, &buffer);
    for (int b = 0; b < count; more += buffer[b++]->count)
        buffer[b]->value = buffers + more;
    gyre_init_buffers(buffer, count);
    ready[0] = '\0';
    return floats;
}

static struct gyre_model *mlp(size_t batch, enum gyre_precision precision)
{
    const struct gyre_model_settings settings = {.batch = batch, .precision = precision};
    struct gyre_model *model;
    assert_int_equal(gyre_mlp_create(&model, (size_t[]){6, 9, 7, 4}, 4, &settings, &trouble), 0);
    return model;
}

static struct gyre_model *convnet(size_t batch, enum gyre_precision precision)
{
    const struct gyre_model_settings settings = {.batch = batch, .precision = precision};
    const struct gyre_volume image = {2, 9, 8};
    struct gyre_model *model;
    assert_int_equal(gyre_convnet_create(&model, image, 4, &settings, &trouble), 0);
    return model;
}

static float *random_batch(const struct gyre_model *model, int64_t *labels)
{
    size_t count = BATCH * gyre_volume_count(gyre_model_input(model));
    float *x = calloc(count, sizeof *x);
    assert_non_null(x);
    gyre_rng_seed(&rng, 5);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)(gyre_rng_next(&rng) >> 11) * 0x1p-52 - 1);
    for (int i = 0; i < BATCH; i++)
        labels[i] = (int64_t)gyre_rng_below(&rng, 4);
    return x;
}

/* The loss of outputs, and its gradient where backward takes it from. */
static int measure(struct gyre_model *model, const float *outputs, const int64_t *labels,
                   size_t samples, float factor, struct gyre_loss *loss)
{
    struct gyre_loss_meter meter;
    assert_int_equal(gyre_loss_meter_init(&meter, gyre_model_processor(model), samples,
                                          gyre_model_outputs(model), &trouble),
                     0);
    int status = gyre_loss_cross_entropy(&meter, outputs, labels, samples, factor,
                                         gyre_model_output_gradient(model), &trouble);
    assert_int_equal(gyre_loss_meter_take(&meter, loss, &trouble), 0);
    gyre_loss_meter_deinit(&meter);
    return status;
}

static double loss_of(struct gyre_model *model, const float *x, const int64_t *labels,
                      size_t samples)
{
    struct gyre_loss loss = {0};
    const float *outputs;
    if (gyre_model_forward(model, x, samples, true, &outputs, &trouble) ||
        measure(model, outputs, labels, samples, 1, &loss))
        fail_msg("%s", trouble.text);
    return loss.sum;
}

static void backward(struct gyre_model *model, bool accumulate)
{
    int status = gyre_model_backward(model, accumulate, &trouble);
    for (; status == GYRE_AGAIN; status = gyre_model_continue(model))
        strcat(strcat(ready, gyre_model_event(model)->ready->name), " ");
    if (status)
        fail_msg("%s", trouble.text);
}

/* -- names ------------------------------------------------------------------------------------- */

static void test_mlp_names(void **state)
{
    struct gyre_model *model = mlp(1, GYRE_PRECISION_F32);
    struct gyre_parameter *const *p;
    assert_int_equal(gyre_model_parameters(model, &p), 6);
    assert_int_equal(own(model), 6 * 9 + 9 + 9 * 7 + 7 + 7 * 4 + 4);
    assert_string_equal(p[0]->name, "0.weight");
    assert_string_equal(p[3]->name, "2.bias");
    assert_string_equal(p[4]->name, "4.weight");
    assert_int_equal(p[4]->shape[0], 4);
    assert_int_equal(p[4]->shape[1], 7);
    assert_int_equal(gyre_model_outputs(model), 4);
    assert_true(strlen(gyre_model_products(model)) > 3);
    gyre_model_destroy(model);
}

static void test_convnet_names(void **state)
{
    const struct gyre_model_settings settings = {.batch = 1};
    static const char *const wanted =
        "layer1.0.weight layer1.0.bias layer1.1.weight layer1.1.bias layer2.0.weight layer2.0.bias "
        "layer2.1.weight layer2.1.bias fc.weight fc.bias ";
    struct gyre_model *model;
    struct gyre_parameter *const *p;
    struct gyre_running_buffer *const *b;
    char names[512] = "";
    assert_int_equal(
        gyre_convnet_create(&model, (struct gyre_volume){1, 28, 28}, 10, &settings, &trouble), 0);
    int count = gyre_model_parameters(model, &p);
    for (int i = 0; i < count; i++)
        strcat(strcat(names, p[i]->name), " ");
    assert_string_equal(names, wanted);
    assert_int_equal(own(model), 29034);
    assert_int_equal(gyre_model_buffers(model, &b), 6);
    assert_string_equal(b[0]->name, "layer1.1.running_mean");
    assert_string_equal(b[5]->name, "layer2.1.num_batches_tracked");
    gyre_model_destroy(model);
}

/* -- gradients --------------------------------------------------------------------------------- */

/* One parameter in `stride`, by the length of the difference: single ones are far off where a step
 * crosses a kink of a ReLU or of pooling. */
static void check_gradients(struct gyre_model *model, size_t stride, double tolerance)
{
    static float computed[FLOATS_MOST];
    const float step = 0x1p-9f;
    int64_t labels[BATCH];
    float *x = random_batch(model, labels);
    size_t floats = own(model);
    double difference = 0, length = 0;
    loss_of(model, x, labels, BATCH);
    backward(model, false);
    memcpy(computed, gradients, floats * sizeof(float));
    for (size_t i = 0; i < floats; i += stride) {
        const float old = values[i];
        values[i] = old + step;
        double high = loss_of(model, x, labels, BATCH);
        values[i] = old - step;
        double slope = (high - loss_of(model, x, labels, BATCH)) / (2 * (double)step);
        values[i] = old;
        difference += pow((double)computed[i] - slope, 2);
        length += slope * slope;
    }
    print_message("gradients differ by %.2e of their length\n", sqrt(difference / length));
    assert_true(sqrt(difference / length) < tolerance);
    free(x);
}

static void test_mlp_gradients(void **state)
{
    struct gyre_model *model = mlp(BATCH, GYRE_PRECISION_F32);
    check_gradients(model, 1, 0.05);
    gyre_model_destroy(model);
}

static void test_convnet_gradients(void **state)
{
    struct gyre_model *model = convnet(BATCH, GYRE_PRECISION_F32);
    check_gradients(model, 29, 0.05);
    gyre_model_destroy(model);
}

/* From the last layer to the first, each once. */
static void test_ready_in_order(void **state)
{
    int64_t labels[BATCH];
    struct gyre_model *model = mlp(BATCH, GYRE_PRECISION_F32);
    float *x = random_batch(model, labels);
    own(model);
    loss_of(model, x, labels, BATCH);
    backward(model, false);
    assert_string_equal(ready, "4.bias 4.weight 2.bias 2.weight 0.bias 0.weight ");
    free(x);
    gyre_model_destroy(model);
}

/* -- batches ----------------------------------------------------------------------------------- */

static void test_parts_of_a_batch(void **state)
{
    int64_t labels[BATCH];
    static float whole[FLOATS_MOST];
    struct gyre_model *model = mlp(BATCH, GYRE_PRECISION_F32);
    float *x = random_batch(model, labels);
    size_t floats = own(model);
    double loss = loss_of(model, x, labels, BATCH), sum = 0;
    backward(model, false);
    memcpy(whole, gradients, floats * sizeof(float));
    static const size_t part[] = {5, 0, 1, 6};
    for (size_t i = 0, at = 0; i < 4; at += part[i++]) {
        sum += loss_of(model, x + at * 6, labels + at, part[i]);
        backward(model, i > 0);
    }
    assert_true(fabs(sum - loss) < 1e-6);
    for (size_t i = 0; i < floats; i++)
        assert_true(fabs((double)gradients[i] - (double)whole[i]) < 1e-5);
    free(x);
    gyre_model_destroy(model);
}

static void test_evaluation(void **state)
{
    int64_t labels[BATCH];
    const float *outputs;
    struct gyre_model *model = convnet(BATCH, GYRE_PRECISION_F32);
    float *x = random_batch(model, labels), first[4];
    own(model);
    loss_of(model, x, labels, BATCH);
    assert_int_equal(gyre_model_forward(model, x, 1, false, &outputs, &trouble), 0);
    memcpy(first, outputs, sizeof first);
    assert_int_equal(gyre_model_forward(model, x, BATCH, false, &outputs, &trouble), 0);
    assert_memory_equal(first, outputs, sizeof first); /* who stands beside does not matter */
    assert_int_equal(gyre_model_backward(model, false, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "without a forward in training"));
    free(x);
    gyre_model_destroy(model);
    memset(&trouble, 0, sizeof trouble);
}

/* Outputs of a batch in training, whose sums are those of this rank alone. */
static void train_forward(struct gyre_model *model, const float *x, size_t samples, float *to)
{
    const float *outputs;
    int status = gyre_model_forward(model, x, samples, true, &outputs, &trouble);
    while (status == GYRE_AGAIN)
        status = gyre_model_continue(model);
    if (status)
        fail_msg("%s", trouble.text);
    memcpy(to, outputs, samples * 4 * sizeof *to);
}

/* Batches of two sizes, one after the other, normalised over a single rank as on their own. */
static void test_synced_batches_of_two_sizes(void **state)
{
    int64_t labels[BATCH];
    float alone[2][BATCH * 4], synced[2][BATCH * 4];
    for (int i = 0; i < 2; i++) {
        struct gyre_model *model = convnet(BATCH, GYRE_PRECISION_F32);
        float *x = random_batch(model, labels);
        own(model);
        if (i)
            gyre_model_sync_batches(model);
        train_forward(model, x, BATCH, i ? synced[0] : alone[0]);
        train_forward(model, x, BATCH / 3, i ? synced[1] : alone[1]);
        free(x);
        gyre_model_destroy(model);
    }
    assert_memory_equal(alone[0], synced[0], sizeof alone[0]);
    assert_memory_equal(alone[1], synced[1], BATCH / 3 * 4 * sizeof(float));
}

/* -- precisions -------------------------------------------------------------------------------- */

/* As near as the digits that are kept, and not nearer than rounding can be. */
static void check_precision(struct gyre_model *exact, struct gyre_model *rounded, double digits)
{
    int64_t labels[BATCH];
    static float whole[FLOATS_MOST];
    float *x = random_batch(exact, labels);
    size_t floats = own(exact);
    double difference = 0, length = 0;
    double loss = loss_of(exact, x, labels, BATCH);
    backward(exact, false);
    memcpy(whole, gradients, floats * sizeof(float));
    own(rounded);
    double other = loss_of(rounded, x, labels, BATCH);
    backward(rounded, false);
    assert_true(fabs(other - loss) < digits * loss && other != loss);
    for (size_t i = 0; i < floats; i++) {
        difference += pow((double)gradients[i] - (double)whole[i], 2);
        length += pow((double)whole[i], 2);
    }
    assert_true(sqrt(difference / length) < 20 * digits);
    assert_true(sqrt(difference / length) > digits / 100);
    free(x);
    gyre_model_destroy(exact);
    gyre_model_destroy(rounded);
}

static void test_precisions(void **state)
{
    check_precision(mlp(BATCH, GYRE_PRECISION_F32), mlp(BATCH, GYRE_PRECISION_BF16), 0x1p-7);
    check_precision(mlp(BATCH, GYRE_PRECISION_F32), mlp(BATCH, GYRE_PRECISION_F16), 0x1p-10);
    check_precision(convnet(BATCH, GYRE_PRECISION_F32), convnet(BATCH, GYRE_PRECISION_BF16),
                    0x1p-7);
    check_precision(convnet(BATCH, GYRE_PRECISION_F32), convnet(BATCH, GYRE_PRECISION_F16),
                    0x1p-10);
}

/* A loss scale that is too large shows in the gradients, so that a scaler can see it. */
static void test_overflow_shows(void **state)
{
    int64_t labels[BATCH];
    struct gyre_loss loss = {0};
    const float *outputs;
    struct gyre_model *model = mlp(BATCH, GYRE_PRECISION_F16);
    float *x = random_batch(model, labels);
    size_t floats = own(model);
    for (int large = 0; large < 2; large++) {
        assert_int_equal(gyre_model_forward(model, x, BATCH, true, &outputs, &trouble), 0);
        measure(model, outputs, labels, BATCH, large ? 0x1p20f : 0x1p8f, &loss);
        backward(model, false);
        assert_int_equal(gyre_ops()->is_finite(gradients, floats), !large);
    }
    free(x);
    gyre_model_destroy(model);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void assert_says(int status, const char *words)
{
    assert_int_equal(status, GYRE_INVALID);
    if (!strstr(trouble.text, words))
        fail_msg("\"%s\" does not say \"%s\"", trouble.text, words);
    memset(&trouble, 0, sizeof trouble);
}

static void test_parse(void **state)
{
    size_t widths[4];
    int count;
    assert_int_equal(gyre_mlp_parse("--layers", "13,64,3", widths, 4, &count, &trouble), 0);
    assert_int_equal(count, 3);
    assert_true(widths[0] == 13 && widths[1] == 64 && widths[2] == 3);
    assert_says(gyre_mlp_parse("--layers", "13", widths, 4, &count, &trouble),
                "--layers is \"13\": expected inputs, hidden");
    assert_says(gyre_mlp_parse("--layers", "1,2,3,4,5", widths, 4, &count, &trouble),
                "at most 4 widths");
    assert_says(gyre_mlp_parse("--layers", "13,,3", widths, 4, &count, &trouble), "--layers is");
    assert_says(gyre_mlp_parse("--layers", "13,0,3", widths, 4, &count, &trouble),
                "--layers is \"0\"");
    assert_says(gyre_mlp_parse("--layers", "13,64,", widths, 4, &count, &trouble), "--layers is");
    assert_says(gyre_mlp_parse("--layers", "13;3", widths, 4, &count, &trouble), "--layers is");
    assert_says(gyre_mlp_parse("--layers", "99999999999999999999999999999999999999,3", widths, 4,
                               &count, &trouble),
                "--layers is");
}

static void test_refused(void **state)
{
    struct gyre_model_settings settings = {.batch = 0};
    struct gyre_model *model = NULL;
    const size_t huge[] = {4, (size_t)1 << 40, 4};
    size_t many[70];
    const float *outputs;
    assert_says(gyre_mlp_create(&model, huge, 3, &settings, &trouble), "batches of 0");
    settings.batch = 1;
    assert_says(gyre_mlp_create(&model, huge, 3, &settings, &trouble), "1099511627776");
    assert_says(gyre_mlp_create(&model, huge, 1, &settings, &trouble), "a model of 1 widths");
    for (int i = 0; i < 70; i++)
        many[i] = 2;
    assert_says(gyre_mlp_create(&model, many, 70, &settings, &trouble), "at most 64 layers");
    assert_says(gyre_convnet_create(&model, (struct gyre_volume){1, 3, 9}, 2, &settings, &trouble),
                "max pool layer2.3");
    assert_says(gyre_convnet_create(&model, (struct gyre_volume){SIZE_MAX, SIZE_MAX, 9}, 2,
                                    &settings, &trouble),
                "inputs of");
    assert_null(model);
    model = mlp(2, GYRE_PRECISION_F32);
    own(model);
    assert_says(gyre_model_forward(model, values, 3, true, &outputs, &trouble),
                "a batch of 3 samples for a model that was made for 2");
    assert_says(gyre_model_backward(model, false, &trouble), "without a forward");
    gyre_model_destroy(model);
    gyre_model_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp_names),      cmocka_unit_test(test_convnet_names),
        cmocka_unit_test(test_mlp_gradients),  cmocka_unit_test(test_convnet_gradients),
        cmocka_unit_test(test_ready_in_order), cmocka_unit_test(test_parts_of_a_batch),
        cmocka_unit_test(test_evaluation),     cmocka_unit_test(test_synced_batches_of_two_sizes),
        cmocka_unit_test(test_precisions),     cmocka_unit_test(test_overflow_shows),
        cmocka_unit_test(test_parse),          cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
