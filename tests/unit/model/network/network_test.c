/* gyre/model.h on one rank: a training whose losses are PyTorch's, steps whose numbers can be
 * worked out on paper, what is refused, and files. More ranks are in the examples, which run as
 * tests. */
#include <gyre/model.h>
#include <gyre/sampler.h>

#include "rig/file_room.h"
#include "data/safetensors/safetensors.h"
#include "rig/test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gyre_comm *comm;

static int enter(void **state)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    options.rank = 0;
    options.world = 1;
    return file_room_open(state) || gyre_init(&comm, &options);
}

static int leave(void **state)
{
    return gyre_finalize(comm) || file_room_close(state);
}

static void good(int status)
{
    if (status)
        fail_msg("%s: %s", gyre_status_name(status), gyre_error(NULL));
}

static void refused(int status, const char *text)
{
    assert_int_equal(status, GYRE_INVALID);
    if (!strstr(gyre_error(NULL), text))
        fail_msg("'%s' does not say '%s'", gyre_error(NULL), text);
}

/* y = (w0, w1) · x + b */
static struct gyre_network *line(double w0, double w1, double b,
                                 const struct gyre_network_options *options)
{
    const struct gyre_ddp_parameter *p;
    struct gyre_network *net;
    good(gyre_network_perceptron(&net, (const uint64_t[]){2, 1}, 2, options));
    assert_int_equal(gyre_network_parameters(net, &p), 2);
    ((float *)p[0].value)[0] = (float)w0;
    ((float *)p[0].value)[1] = (float)w1;
    ((float *)p[1].value)[0] = (float)b;
    return net;
}

static void has(struct gyre_network *net, double w0, double w1, double b)
{
    const struct gyre_ddp_parameter *p;
    gyre_network_parameters(net, &p);
    const double wanted[] = {w0, w1, b};
    const float got[] = {((float *)p[0].value)[0], ((float *)p[0].value)[1],
                         ((float *)p[1].value)[0]};
    for (int i = 0; i < 3; i++)
        if (!(fabs(got[i] - wanted[i]) <= 1e-6))
            fail_msg("value %d is %.9g, not %.9g", i, (double)got[i], wanted[i]);
}

/* -- a whole training -------------------------------------------------------------------------- */

/* PyTorch's, of Linear(13, 64), ReLU, Linear(64, 3) by Adam on Wine, batches of 32. */
static const double wine_losses[] = {1.06979465,  0.997791469, 1.0432539,   0.987816513,
                                     1.00354505,  0.958652437, 0.973094881, 0.899556935,
                                     0.925247312, 0.893228114, 0.928979576, 0.821196377};
#define LOSSES (sizeof wine_losses / sizeof wine_losses[0])

struct wine_run {
    struct gyre_samples *data;
    struct gyre_sampler *sampler;
    struct gyre_network *net;
    struct gyre_ddp *ddp;
};

static void open_wine(struct wine_run *run, int sharded)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_sampler_options order = GYRE_SAMPLER_OPTIONS_INIT;
    struct gyre_ddp_options ddp = GYRE_DDP_OPTIONS_INIT;
    options.method = GYRE_NETWORK_ADAM;
    options.file = GYRE_TEST_DATA "/golden/wine.w1.init.safetensors";
    ddp.sharded = sharded;
    good(gyre_samples_open(&run->data, "wine"));
    order.samples = gyre_samples_count(run->data);
    good(gyre_sampler_create(&run->sampler, &order));
    good(gyre_network_perceptron(&run->net, (const uint64_t[]){13, 64, 3}, 3, &options));
    good(gyre_network_join(run->net, comm, &ddp, &run->ddp));
}

static double step_wine(struct wine_run *run)
{
    float x[32 * 13];
    int64_t labels[32];
    uint64_t index[32], count;
    good(gyre_sampler_next(run->sampler, 32, index, 32, &count));
    good(gyre_samples_take(run->data, index, count, x, labels));
    good(gyre_network_learn_classes(run->net, x, count, labels));
    good(gyre_ddp_wait(run->ddp));
    good(gyre_network_update(run->net, 1e-3));
    const struct gyre_ddp_result *result = gyre_ddp_result(run->ddp);
    assert_int_equal(result->samples, count);
    return result->sum[GYRE_NETWORK_LOSS] / (double)result->samples;
}

static void train_wine(int sharded)
{
    struct wine_run run;
    uint64_t epoch = 0;
    open_wine(&run, sharded);
    for (unsigned step = 0; step < LOSSES; step++) {
        if (!gyre_sampler_left(run.sampler))
            good(gyre_sampler_begin(run.sampler, ++epoch, 0));
        double loss = step_wine(&run);
        if (!(fabs(loss - wine_losses[step]) <= 1e-5 * wine_losses[step]))
            fail_msg("step %u: loss %.9g, PyTorch has %.9g", step, loss, wine_losses[step]);
    }
    gyre_network_destroy(run.net);
    gyre_sampler_destroy(run.sampler);
    gyre_samples_close(run.data);
}

static void trains_as_pytorch_does(void **state)
{
    train_wine(0);
    train_wine(1);
}

/* -- steps on paper ---------------------------------------------------------------------------- */

static const float rows[] = {1, 2, 3, -1};
static const float targets[] = {1, 2};

/* Of a row: gradient 2 (output - target) x; of the step: the mean of both. */
static void follows_the_mean_gradient(void **state)
{
    struct gyre_network *net = line(0.5, -0.25, 0.5, NULL);
    struct gyre_ddp *ddp;
    good(gyre_network_join(net, comm, NULL, &ddp));
    good(gyre_network_learn_targets(net, rows, 2, targets));
    good(gyre_ddp_wait(ddp));
    /* outputs 0.5 and 2.25: d = -0.5 and 0.25 */
    assert_true(fabs(gyre_ddp_result(ddp)->sum[GYRE_NETWORK_LOSS] - 0.3125) < 1e-6);
    good(gyre_network_update(net, 0.1));
    has(net, 0.5 - 0.1 * 0.25, -0.25 + 0.1 * 1.25, 0.5 + 0.1 * 0.25);
    gyre_network_destroy(net);
}

static void adds_the_parts_of_a_step(void **state)
{
    struct gyre_network *net = line(0.5, -0.25, 0.5, NULL);
    struct gyre_ddp *ddp;
    good(gyre_network_join(net, comm, NULL, &ddp));
    good(gyre_ddp_no_sync(ddp, 1));
    good(gyre_network_learn_targets(net, rows, 1, targets));
    good(gyre_ddp_wait(ddp));
    good(gyre_ddp_no_sync(ddp, 0));
    good(gyre_network_learn_targets(net, rows + 2, 1, targets + 1));
    good(gyre_ddp_wait(ddp));
    good(gyre_network_update(net, 0.1));
    has(net, 0.475, -0.125, 0.525);
    gyre_network_destroy(net);
}

static void takes_factor_and_options(void **state)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp_options unscaled = GYRE_DDP_OPTIONS_INIT;
    struct gyre_ddp *ddp;
    options.weight_decay = 1;
    unscaled.unscaled = 1;
    struct gyre_network *net = line(0.5, -0.25, 0.5, &options);
    good(gyre_network_join(net, comm, &unscaled, &ddp));
    good(gyre_network_learn_targets(net, rows, 2, targets));
    good(gyre_ddp_wait(ddp));
    good(gyre_network_update(net, 0.1));
    has(net, 0.475 - 0.05, -0.125 + 0.025, 0.525 - 0.05);
    gyre_network_destroy(net);
}

static void changes_nothing_without_a_good_gradient(void **state)
{
    const float bad[] = {NAN, 1};
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    options.weight_decay = 1; /* an update by zeros would be seen */
    struct gyre_network *net = line(1, 2, 3, &options);
    struct gyre_ddp *ddp;
    good(gyre_network_join(net, comm, NULL, &ddp));
    good(gyre_network_learn_targets(net, NULL, 0, NULL));
    good(gyre_ddp_wait(ddp));
    good(gyre_network_update(net, 0.1));
    good(gyre_network_learn_targets(net, bad, 1, targets));
    good(gyre_ddp_wait(ddp));
    good(gyre_network_update(net, 0.1));
    good(gyre_network_learn_targets(net, rows, 1, targets));
    good(gyre_ddp_ask_skip(ddp));
    good(gyre_ddp_wait(ddp));
    good(gyre_network_update(net, 0.1));
    has(net, 1, 2, 3);
    gyre_network_destroy(net);
}

/* 1 + 2^-10 is a number of f16, and not of bf16. */
static void multiplies_in_the_precision_asked_for(void **state)
{
    static const struct {
        enum gyre_type type;
        float output;
    } tries[] = {{GYRE_F32, 1 + 0x1p-10f}, {GYRE_BF16, 1}, {GYRE_F16, 1 + 0x1p-10f}};
    const float row[] = {1 + 0x1p-10f, 0}, *outputs;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
        options.precision = tries[i].type;
        struct gyre_network *net = line(1, 0, 0, &options);
        good(gyre_network_predict(net, row, 1, &outputs));
        assert_true(outputs[0] == tries[i].output);
        gyre_network_destroy(net);
    }
}

/* The first step's gradient of the output is -1 times 65,536, which f16 has not. */
static void scales_the_loss(void **state)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_ddp *ddp;
    options.precision = GYRE_F16;
    struct gyre_network *net = line(0.5, -0.25, 0.5, &options);
    good(gyre_network_join(net, comm, NULL, &ddp));
    for (int step = 0; step < 2; step++) {
        has(net, 0.5, -0.25, 0.5);
        assert_true(gyre_network_loss_scale(net) == (step ? 32768 : 65536));
        good(gyre_network_learn_targets(net, rows, 2, targets));
        good(gyre_ddp_wait(ddp));
        good(gyre_network_update(net, 0.1));
    }
    has(net, 0.475, -0.125, 0.525);
    assert_true(gyre_ddp_result(ddp)->norm > 32768); /* of scaled gradients */
    assert_true(gyre_network_loss_scale(net) == 32768 && gyre_network_loss_scale(NULL) == 1);
    gyre_network_destroy(net);
}

static void scores_without_learning(void **state)
{
    struct gyre_network *net = line(0.5, -0.25, 0.5, NULL);
    struct gyre_network_score score = {0};
    const float *outputs;
    good(gyre_network_predict(net, rows, 2, &outputs));
    assert_true(outputs[0] == 0.5f && outputs[1] == 2.25f);
    good(gyre_network_score_targets(net, rows, 2, targets, &score));
    good(gyre_network_score_targets(net, rows, 2, targets, &score));
    assert_int_equal(score.samples, 4);
    assert_true(fabs(score.loss - 0.625) < 1e-6);
    has(net, 0.5, -0.25, 0.5);
    gyre_network_destroy(net);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void refuses_what_cannot_be_made(void **state)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_network *net = (struct gyre_network *)state;
    refused(gyre_network_perceptron(&net, (const uint64_t[]){0, 3}, 2, NULL), "0");
    assert_null(net);
    options.size--;
    refused(gyre_network_convnet(&net, 1, 28, 28, 10, &options), "size");
    options.size++;
    options.method = (enum gyre_network_method)7;
    refused(gyre_network_convnet(&net, 1, 28, 28, 10, &options), "method 7");
    options.method = GYRE_NETWORK_ADAM;
    options.precision = GYRE_I32;
    refused(gyre_network_convnet(&net, 1, 28, 28, 10, &options), "precision 4");
    options.precision = GYRE_F32;
    options.beta1 = 2;
    refused(gyre_network_perceptron(&net, (const uint64_t[]){2, 1}, 2, &options), "2");
    assert_null(net);
    options.beta1 = 0.9;
    options.file = file_room_name("missing");
    assert_int_equal(gyre_network_convnet(&net, 1, 28, 28, 10, &options), -ENOENT);
    assert_non_null(strstr(gyre_error(NULL), "missing"));
    gyre_network_destroy(NULL);
}

static void sizes_are_those_of_rows(void **state)
{
    struct gyre_network *net = line(1, 2, 3, NULL);
    (void)state;
    assert_int_equal(gyre_network_inputs(net), 2);
    assert_int_equal(gyre_network_outputs(net), 1);
    assert_int_equal(gyre_network_inputs(NULL), 0);
    assert_int_equal(gyre_network_outputs(NULL), 0);
    gyre_network_destroy(net);
}

static void refuses_steps_out_of_turn(void **state)
{
    struct gyre_network *net = line(1, 2, 3, NULL);
    struct gyre_ddp *ddp, *second;
    refused(gyre_network_learn_targets(net, rows, 1, targets), "gyre_network_join");
    refused(gyre_network_update(net, 0.1), "gyre_network_join");
    good(gyre_network_join(net, comm, NULL, &ddp));
    refused(gyre_network_join(net, comm, NULL, &second), "already");
    refused(gyre_network_update(net, 0.1), "gyre_ddp_wait");
    good(gyre_network_learn_targets(net, rows, 1, targets));
    refused(gyre_network_update(net, 0.1), "gyre_ddp_wait");
    refused(gyre_network_learn_targets(net, rows, 1, targets), "gyre_ddp_wait");
    good(gyre_ddp_wait(ddp));
    refused(gyre_network_update(net, NAN), "learning rate nan");
    refused(gyre_network_update(net, -1), "learning rate -1");
    good(gyre_network_update(net, 0.1));
    refused(gyre_network_update(net, 0.1), "step 1 was applied already");
    gyre_network_destroy(net);
}

/* A batch that is refused has begun nothing: the next one is a whole step. */
static void refuses_batches_before_a_step(void **state)
{
    struct gyre_network *net;
    struct gyre_ddp *ddp;
    const int64_t bad[] = {0, 3}, negative[] = {-1}, fine[] = {2, 1};
    good(gyre_network_perceptron(&net, (const uint64_t[]){2, 3}, 2, NULL));
    good(gyre_network_join(net, comm, NULL, &ddp));
    refused(gyre_network_learn_classes(net, rows, 2, bad), "label 3 of row 1");
    refused(gyre_network_learn_classes(net, rows, 1, negative), "label -1 of row 0");
    refused(gyre_network_learn_classes(net, rows, 33, fine), "33 rows");
    refused(gyre_network_learn_classes(net, NULL, 2, fine), "NULL");
    good(gyre_network_learn_classes(net, rows, 2, fine));
    good(gyre_ddp_wait(ddp));
    assert_int_equal(gyre_ddp_result(ddp)->number, 1);
    gyre_network_destroy(net);
}

/* -- files ------------------------------------------------------------------------------------- */

/* Each buffer has memory of its own: after one step each counter is 1. */
static void counts_batches(const char *path)
{
    struct gyre_safetensors *file;
    int64_t count;
    assert_int_equal(gyre_safetensors_open(&file, path, NULL), 0);
    assert_int_equal(gyre_safetensors_count(file), 16);
    for (int layer = 1; layer <= 2; layer++) {
        char name[64];
        snprintf(name, sizeof name, "layer%d.1.num_batches_tracked", layer);
        memcpy(&count, gyre_safetensors_find(file, name)->data, sizeof count);
        assert_int_equal(count, 1);
    }
    gyre_safetensors_close(file);
}

static void reads_what_it_saved(void **state)
{
    struct gyre_network *net, *copy;
    float image[2 * 8 * 8];
    const float *outputs, *same;
    char path[256];
    snprintf(path, sizeof path, "%s", file_room_name("convnet"));
    for (int i = 0; i < 2 * 8 * 8; i++)
        image[i] = (float)(i % 7) / 7;
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    options.seed = 5;
    good(gyre_network_convnet(&net, 1, 8, 8, 3, &options));
    struct gyre_ddp *ddp;
    good(gyre_network_join(net, comm, NULL, &ddp)); /* a step moves the running means too */
    good(gyre_network_learn_classes(net, image, 2, (const int64_t[]){0, 2}));
    good(gyre_ddp_wait(ddp));
    good(gyre_network_update(net, 0.1));
    good(gyre_network_save(net, path));
    counts_batches(path);
    options.file = path;
    good(gyre_network_convnet(&copy, 1, 8, 8, 3, &options));
    good(gyre_network_predict(net, image, 2, &outputs));
    good(gyre_network_predict(copy, image, 2, &same));
    assert_memory_equal(outputs, same, 6 * sizeof(float));
    gyre_network_destroy(copy);
    gyre_network_destroy(net);
}

static void takes_nothing_of_another_network(void **state)
{
    struct gyre_network *net, *other;
    char path[256];
    snprintf(path, sizeof path, "%s", file_room_name("other"));
    net = line(1, 2, 3, NULL);
    good(gyre_network_perceptron(&other, (const uint64_t[]){2, 2}, 2, NULL));
    good(gyre_network_save(other, path));
    refused(gyre_network_load(net, path), "dimension 0 of '0.weight' is 2, the network's is 1");
    gyre_network_destroy(other);
    good(gyre_network_perceptron(&other, (const uint64_t[]){2, 1, 1}, 3, NULL));
    good(gyre_network_save(other, path));
    refused(gyre_network_load(net, path), "has '2.bias', which the network has not");
    gyre_network_destroy(other);
    has(net, 1, 2, 3);
    gyre_network_destroy(net);
}

static void hands_out_rows(void **state)
{
    struct gyre_samples *data;
    uint64_t channels, height, width;
    const uint64_t beyond = 142;
    float x[13];
    int64_t label;
    good(gyre_samples_open(&data, "wine"));
    assert_int_equal(gyre_samples_count(data), 142);
    assert_int_equal(gyre_samples_features(data), 13);
    assert_int_equal(gyre_samples_classes(data), 3);
    gyre_samples_image(data, &channels, &height, &width);
    assert_int_equal(width, 0);
    refused(gyre_samples_take(data, &beyond, 1, x, &label), "row 142 of 142");
    gyre_samples_close(data);
    assert_int_equal(gyre_samples_open(&data, file_room_name("none.csv")), -ENOENT);
    assert_null(data);
}

static void knows_images(void **state)
{
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 255, 0, 0, 51};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};
    struct gyre_samples *data;
    uint64_t channels, height, width;
    const uint64_t order[] = {1, 0};
    float x[4];
    int64_t label[2];
    assert_non_null(file_room_make("t-labels-idx1-ubyte", labels, sizeof labels));
    good(gyre_samples_open(&data, file_room_make("t-images-idx3-ubyte", images, sizeof images)));
    gyre_samples_image(data, &channels, &height, &width);
    assert_true(channels == 1 && height == 1 && width == 2);
    good(gyre_samples_take(data, order, 2, x, label));
    assert_true(x[0] == 0 && x[1] == 51.f / 255 && x[2] == 1 && label[0] == 0 && label[1] == 1);
    gyre_samples_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_as_pytorch_does),
        cmocka_unit_test(follows_the_mean_gradient),
        cmocka_unit_test(adds_the_parts_of_a_step),
        cmocka_unit_test(takes_factor_and_options),
        cmocka_unit_test(changes_nothing_without_a_good_gradient),
        cmocka_unit_test(multiplies_in_the_precision_asked_for),
        cmocka_unit_test(scales_the_loss),
        cmocka_unit_test(scores_without_learning),
        cmocka_unit_test(refuses_what_cannot_be_made),
        cmocka_unit_test(sizes_are_those_of_rows),
        cmocka_unit_test(refuses_steps_out_of_turn),
        cmocka_unit_test(refuses_batches_before_a_step),
        cmocka_unit_test(reads_what_it_saved),
        cmocka_unit_test(takes_nothing_of_another_network),
        cmocka_unit_test(hands_out_rows),
        cmocka_unit_test(knows_images),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
