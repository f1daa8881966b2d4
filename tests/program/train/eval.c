/* The evaluation of gyre train on several ranks: it is one rank's, of the model that is saved.
 * Batch norm's running means are each rank's own while it trains; what is evaluated, as what is
 * saved, are rank 0's. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <gyre/model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MOST 256

/* -- what one rank makes of the file ----------------------------------------------------------- */

static struct gyre_network *open_network(const char *file, const struct gyre_samples *samples)
{
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_network *net;
    uint64_t channels, height, width;
    gyre_samples_image(samples, &channels, &height, &width);
    options.batch = ROWS_MOST;
    options.file = file;
    if (gyre_network_convnet(&net, channels, height, width, gyre_samples_classes(samples),
                             &options))
        fail_msg("%s", gyre_error(NULL));
    return net;
}

static struct gyre_network_score score_file(const char *file, const char *data)
{
    static float x[ROWS_MOST * 784];
    int64_t label[ROWS_MOST];
    uint64_t index[ROWS_MOST];
    struct gyre_network_score score = {0};
    struct gyre_samples *samples;
    assert_int_equal(gyre_samples_open(&samples, data), 0);
    uint64_t rows = gyre_samples_count(samples);
    assert_true(rows <= ROWS_MOST && gyre_samples_features(samples) == 784);
    for (uint64_t i = 0; i < rows; i++)
        index[i] = i;
    assert_int_equal(gyre_samples_take(samples, index, rows, x, label), 0);
    struct gyre_network *net = open_network(file, samples);
    assert_int_equal(gyre_network_score_classes(net, x, rows, label, &score), 0);
    gyre_network_destroy(net);
    gyre_samples_close(samples);
    return score;
}

/* -- what the run told ------------------------------------------------------------------------- */

static double last_number(const char *text, const char *name)
{
    const char *last = text;
    for (const char *at = text; (at = strstr(at, "\"kind\":\"epoch\"")) != NULL; at++)
        last = at;
    return read_number(last, name);
}

static void evaluate_on(const char *ranks)
{
    const char *data = golden("convnet.data.safetensors");
    const char *words[] = {"train", "--model",   "convnet", "--data",  data,   "--test",
                           data,    "--ranks",   ranks,     "--batch", "8",    "--lr",
                           "0.01",  "--epochs",  "2",       "--tail",  "once", "--save",
                           NULL,    "--metrics", NULL,      "--quiet", NULL};
    clean();
    words[18] = in_folder("save");
    words[20] = in_folder("m");
    expect_success(words);
    char *text = read_text(words[20]);
    struct gyre_network_score score = score_file(saved_model(words[18]), data);
    double told = last_number(text, "test_loss"), loss = score.loss / (double)score.samples;
    double right = (double)score.right / (double)score.samples;
    if (!(fabs(told - loss) <= 1e-6 * loss))
        fail_msg("%s ranks: test loss %.9g, one rank finds %.9g", ranks, told, loss);
    assert_true(fabs(last_number(text, "test_accuracy") - right) < 1e-9);
    free(text);
}

static void all_ranks_evaluate_what_is_saved(void **state)
{
    (void)state;
    evaluate_on("1");
    evaluate_on("2");
    evaluate_on("3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_evaluate_what_is_saved),
    };
    return cmocka_run_group_tests_name("gyre train, evaluated", tests, NULL, NULL);
}
