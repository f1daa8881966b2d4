/* gyre predict: what it prints of models whose outputs are known, line for line; what it makes of
 * data with and without labels; and what it refuses. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MOST 12

/* An mlp of one layer whose outputs are its inputs. */
static const char *write_identity(uint64_t width)
{
    static float weight[9][9], bias[9];
    const uint64_t square[] = {width, width}, row[] = {width};
    for (uint64_t i = 0; i < width; i++)
        weight[0][i * (width + 1)] = 1;
    const struct gyre_stored_tensor tensors[] = {
        {"0.weight", GYRE_STORED_F32, 2, square, weight, 0},
        {"0.bias", GYRE_STORED_F32, 1, row, bias, 0}};
    const char *path = in_folder("identity.safetensors");
    assert_int_equal(gyre_safetensors_write(path, tensors, 2, NULL, 0, NULL), 0);
    memset(weight, 0, sizeof weight);
    return path;
}

static void predict(const char *init, const char *data, const char *const more[WORDS_MOST])
{
    const char *words[6 + WORDS_MOST] = {"predict", "--init", init, "--data", data};
    for (int i = 0; i < WORDS_MOST && more[i]; i++)
        words[5 + i] = more[i];
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

#define NO_MORE ((const char *[WORDS_MOST]){NULL})

/* -- lines ------------------------------------------------------------------------------------- */

/* Softmax of (2, 0) is 1 / (1 + e^-2); of equals the first counts. */
static void a_line_is_a_sample(void **state)
{
    (void)state;
    clean();
    const char *init = write_identity(2), *data = in_folder("x.csv");
    write_lines(data, "2,0,0\n0,1,1\n3,3,1\n");
    predict(init, data, NO_MORE);
    assert_string_equal(rig.out_text, "sample,class,label,probability\n"
                                      "0,0,0,0.880797088\n"
                                      "1,1,1,0.731058598\n"
                                      "2,0,1,0.5\n");
    assert_true(rig_has(rig.err_text, "; 3 samples of "));
    assert_true(rig_has(rig.err_text, "; accuracy 66.67 %\n"));
    assert_true(rig_has(rig.err_text, "label \\ class          0          1     recall\n"
                                      "            0          1          0   100.00 %\n"
                                      "            1          1          1    50.00 %\n"
                                      "    precision    50.00 %   100.00 %\n"));
    rig_end(&rig);
    predict(init, data, (const char *[WORDS_MOST]){"--probabilities"});
    assert_true(rig_has(rig.out_text, "sample,class,label,probability,p(0),p(1)\n"
                                      "0,0,0,0.880797088,0.880797088,0.119202919\n"));
    rig_end(&rig);
}

/* As many columns as the model takes: none of them is a label. */
static void labels_may_be_absent(void **state)
{
    (void)state;
    clean();
    const char *init = write_identity(2), *data = in_folder("x.csv");
    write_lines(data, "a,b\n2,0\n0,1\n");
    predict(init, data, NO_MORE);
    assert_string_equal(rig.out_text, "sample,class,probability\n"
                                      "0,0,0.880797088\n"
                                      "1,1,0.731058598\n");
    assert_true(rig_has(rig.err_text, "class    samples\n    0          1\n    1          1\n"));
    rig_end(&rig);
}

/* More samples than a batch: each line is of its own sample. */
static void every_batch_is_another(void **state)
{
    (void)state;
    clean();
    const char *init = write_identity(2), *data = in_folder("x.csv");
    FILE *file = fopen(data, "w");
    assert_non_null(file);
    for (int i = 0; i < 600; i++)
        fprintf(file, "%d,%d\n", i % 256, i / 256 * 200);
    assert_int_equal(fclose(file), 0);
    predict(init, data, NO_MORE);
    for (int i = 0; i < 600; i++) {
        char line[40];
        snprintf(line, sizeof line, "\n%d,%d,", i, i % 256 < i / 256 * 200);
        expect_told(line);
    }
    rig_end(&rig);
}

/* What --out takes is not on standard output; the summary is. */
static void lines_may_go_to_a_file(void **state)
{
    (void)state;
    clean();
    const char *init = write_identity(2), *data = in_folder("x.csv"), *out = in_folder("out");
    write_lines(data, "2,0,0\n");
    predict(init, data, (const char *[WORDS_MOST]){"--out", out});
    assert_true(rig_has(rig.out_text, "; accuracy 100.00 %\n"));
    assert_string_equal(rig.err_text, "");
    char *text = read_text(out);
    assert_string_equal(text, "sample,class,label,probability\n0,0,0,0.880797088\n");
    free(text);
    rig_end(&rig);
}

static void json_has_the_figures_too(void **state)
{
    (void)state;
    clean();
    const char *init = write_identity(3), *data = in_folder("x.csv");
    write_lines(data, "1,0,0,0\n0,1,0,1\n0,1,0,0\n");
    predict(init, data, (const char *[WORDS_MOST]){"--json", "--probabilities"});
    assert_true(rig_has(rig.out_text, "\"samples\":3,\n \"classes\":[\"0\",\"1\",\"2\"],\n"));
    assert_true(rig_has(rig.out_text,
                        "\n  {\"sample\":0,\"class\":\"0\",\"label\":\"0\",\"probability\":"
                        "0.57611686,\"probabilities\":[0.57611686,0.211941555,0.211941555]},\n"));
    assert_true(rig_has(rig.out_text, "\"confusion\":[[1,1,0],[0,1,0],[0,0,0]],\n"
                                      " \"precision\":[1,0.5,null],\n"
                                      " \"recall\":[0.5,1,null],\n"));
    assert_true(fabs(read_number(rig.out_text, "accuracy") - 2 / 3.0) < 1e-12);
    rig_end(&rig);
}

/* More classes than a matrix has room for. */
static void many_classes_get_a_line_each(void **state)
{
    char wide[800], layers[32];
    const char *words[] = {"train",    "--data", "random:200,5,20", "--layers", layers,
                           "--epochs", "1",      "--save",          NULL,       "--quiet",
                           NULL};
    (void)state;
    clean();
    strcpy(layers, "5,20");
    words[8] = in_folder("save");
    expect_success(words);
    predict(words[8], words[2], NO_MORE);
    snprintf(wide, sizeof wide, "%s", rig.err_text);
    assert_true(rig_has(wide, "class    samples  precision     recall\n    0 "));
    assert_true(rig_has(rig.err_text, "--json has the whole confusion matrix\n"));
    rig_end(&rig);
}

/* -- numbers ----------------------------------------------------------------------------------- */

/* A file of weights alone does not say that it gives numbers; a checkpoint does. */
static void models_of_targets_give_numbers(void **state)
{
    const char *words[] = {"train", "--data", NULL, "--loss",   "mse", "--layers", "1,1", "--lr",
                           "0",     "--save", NULL, "--epochs", "1",   "--quiet",  NULL};
    char model[700];
    (void)state;
    clean();
    words[2] = in_folder("x.csv");
    words[10] = in_folder("save");
    write_lines(words[2], "1,2\n2,4\n");
    expect_success(words);
    predict(words[10], words[2], NO_MORE);
    assert_int_equal(strncmp(rig.out_text, "sample,output,target\n0,", 23), 0);
    assert_true(rig_has(rig.err_text, "; mean squared error "));
    snprintf(model, sizeof model, "cp %s %s/plain.safetensors", saved_model(words[10]),
             rig_folder());
    char *told = strdup(rig.out_text);
    rig_end(&rig);
    assert_int_equal(system(model), 0);
    predict(in_folder("plain.safetensors"), words[2], (const char *[WORDS_MOST]){"--targets"});
    assert_string_equal(rig.out_text, told);
    free(told);
    rig_end(&rig);
}

/* The names of classes are fields of a CSV. */
static void names_of_classes_are_shown_harmless(void **state)
{
    const char *words[] = {"train",    "--data", NULL,      "--layers", "1,2", "--batch", "2",
                           "--epochs", "1",      "--quiet", "--save",   NULL,  NULL};
    (void)state;
    clean();
    const char *data = words[2] = in_folder("x.csv");
    write_lines(data, "1,\x1b[2J\n2,\xc2\x9b"
                      "b\n3,\x1b[2J\n4,\xc2\x9b"
                      "b\n");
    words[11] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_null(strchr(rig.out_text, '\x1b'));
    assert_null(strchr(rig.err_text, '\x1b'));
    rig_end(&rig);
    predict(words[11], data, NO_MORE);
    assert_non_null(strstr(rig.err_text, "label \\ class       ?[2J        ??b     recall\n"));
    assert_null(strchr(rig.err_text, '\x1b'));
    assert_non_null(strstr(rig.out_text, ",\x1b[2J,")); /* a pipe gets the data as they are */
    rig_end(&rig);
}

/* -- images ------------------------------------------------------------------------------------ */

/* The accuracy is the run's; without the labels' file the classes are the same. */
static void a_convnet_predicts_images(void **state)
{
    char images[600], labels[600], named[600], *told, *bare;
    const char *words[] = {"train", "--preset", "mnist",  "--data",  images, "--test",
                           images,  "--epochs", "1",      "--batch", "20",   "--metrics",
                           NULL,    "--quiet",  "--save", NULL,      NULL};
    (void)state;
    clean();
    snprintf(images, sizeof images, "%s/train-images-idx3-ubyte", rig_folder());
    snprintf(labels, sizeof labels, "%s/train-labels-idx1-ubyte", rig_folder());
    snprintf(named, sizeof named, "%s/else", rig_folder());
    write_digits(images, labels, 300); /* more than one batch */
    words[12] = in_folder("m");
    words[15] = in_folder("save");
    expect_success(words);
    predict(words[15], images, (const char *[WORDS_MOST]){"--json"});
    char *metrics = read_text(words[12]);
    double accuracy = read_number(strstr(metrics, "\"kind\":\"epoch\""), "test_accuracy");
    assert_true(fabs(read_number(rig.out_text, "accuracy") - accuracy) < 1e-9);
    told = strdup(rig.out_text);
    rig_end(&rig);
    assert_int_equal(rename(labels, named), 0);
    predict(words[15], images, (const char *[WORDS_MOST]){"--json"});
    assert_false(rig_has(rig.out_text, "accuracy"));
    bare = strdup(rig.out_text);
    rig_end(&rig);
    for (int i = 0; i < 300; i += 7) {
        char start[64], one[64] = "", other[64] = "";
        snprintf(start, sizeof start, "{\"sample\":%d,\"class\":", i);
        sscanf(strstr(told, start), "%*[^:]:%*[^:]:%15s", one);
        sscanf(strstr(bare, start), "%*[^:]:%*[^:]:%15s", other);
        one[3] = other[3] = 0;
        assert_true(one[0] == '"');
        assert_string_equal(one, other);
    }
    predict(words[15], images, (const char *[WORDS_MOST]){"--labels", named});
    assert_true(rig_has(rig.err_text, "; accuracy "));
    rig_end(&rig);
    free(metrics);
    free(told);
    free(bare);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void what_cannot_be_predicted_is_told(void **state)
{
    static const struct {
        const char *words[WORDS_MOST];
        int code;
        const char *says;
    } wrong[] = {
        {{NULL}, 2, "which model? --init names a folder of checkpoints, or safetensors"},
        {{"--init", "identity"}, 2, "of what? --data names the samples"},
        {{"--inti", "x"}, 2, "unknown flag '--inti'; did you mean '--init'?"},
        {{"--init", "identity", "--data", "wine", "--probability"},
         2,
         "did you mean '--probabilities'?"},
        {{"--init", "identity", "--data", "wine", "more"}, 2, "unexpected word 'more'"},
        {{"--init", "identity", "--data", "wine"},
         2,
         ": mlp 2,2 begins with 2; samples of wine have 13 numbers"},
        {{"--init", "identity", "--data", "random:99,2,3"},
         2,
         ": mlp 2,2 ends in 2; random:99,2,3"},
        {{"--init", "/nowhere/x", "--data", "wine"}, 1, "/nowhere/x: cannot open it"},
        {{"--init", "identity", "--data", "/nowhere/x.csv"}, 1, "/nowhere/x.csv"},
        {{"--init", "identity", "--data", "random:9,2,2", "--out", "/nowhere/x"},
         1,
         "--out /nowhere/x: No such file"},
        {{"--init", "identity", "--data", "random:9,2,2", "--out", "/dev/full"},
         1,
         "writing /dev/full: No space left"},
        {{"--init", "other", "--data", "wine"},
         2,
         ": neither an mlp, whose first tensor is 0.weight"},
    };
    const uint64_t one[] = {1};
    const float value = 1;
    (void)state;
    clean();
    char *identity = strdup(write_identity(2)), *other = strdup(in_folder("other.safetensors"));
    const struct gyre_stored_tensor tensor = {"a", GYRE_STORED_F32, 1, one, &value, 0};
    assert_int_equal(gyre_safetensors_write(other, &tensor, 1, NULL, 0, NULL), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *words[WORDS_MOST + 1] = {"predict"};
        memcpy(words + 1, wrong[i].words, sizeof wrong[i].words - sizeof *words);
        if (words[2] && strcmp(words[2], "identity") == 0)
            words[2] = identity;
        if (words[2] && strcmp(words[2], "other") == 0)
            words[2] = other;
        rig_run(&rig, NULL, words);
        if (rig.code != wrong[i].code || !rig_has(rig.err_text, wrong[i].says))
            fail_msg("exit code %d, \"%s\" is not in: %s", rig.code, wrong[i].says, rig.err_text);
        rig_end(&rig);
    }
    free(identity);
    free(other);
}

static void help_lists_every_flag(void **state)
{
    (void)state;
    rig_run(&rig, NULL, (const char *[]){"help", "predict", NULL});
    assert_int_equal(rig.code, 0);
    expect_told("usage: gyre predict --init DIR --data FILE [FLAGS]\n");
    expect_told("--probabilities");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_sample),
        cmocka_unit_test(labels_may_be_absent),
        cmocka_unit_test(every_batch_is_another),
        cmocka_unit_test(lines_may_go_to_a_file),
        cmocka_unit_test(json_has_the_figures_too),
        cmocka_unit_test(many_classes_get_a_line_each),
        cmocka_unit_test(models_of_targets_give_numbers),
        cmocka_unit_test(names_of_classes_are_shown_harmless),
        cmocka_unit_test(a_convnet_predicts_images),
        cmocka_unit_test(what_cannot_be_predicted_is_told),
        cmocka_unit_test(help_lists_every_flag),
    };
    return cmocka_run_group_tests_name("gyre predict", tests, NULL, NULL);
}
