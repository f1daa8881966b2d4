/* gyre train told wrong things, given bad files, or a rank of it killed: what it says, and that it
 * ends. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- what is wrong ----------------------------------------------------------------------------- */

struct wrong {
    const char *words[14]; /* behind "train" */
    int code;
    const char *says;
};

static const struct wrong wrongs[] = {
    {{NULL}, 2, "nothing to train on: --data FILE"},
    {{"--preset", "vine"}, 2, "did you mean \"wine\"?"},
    {{"--preset", "wine", "--bacth", "3"}, 2, "did you mean '--batch'?"},
    {{"--preset", "wine", "--learning-rate", "1"}, 2, "did you mean '--lr'?"},
    {{"--preset", "wine", "--lrr", "1"}, 2, "did you mean '--lr'?"},
    {{"--preset", "wine", "--batch", "0"}, 2, "--batch"},
    {{"--preset", "wine", "--batch"}, 2, "--batch"},
    {{"--preset", "wine", "--lr", "fast"}, 2, "--lr fast: a number from 0 to"},
    {{"--preset", "wine", "--optimizer", "adma"}, 2, "did you mean \"adam\"?"},
    {{"--preset", "wine", "--layers", "12,3"},
     2,
     "--layers 12,3 begins with 12; samples of wine have 13"},
    {{"--preset", "wine", "--layers", "13,2"}, 2, "--layers 13,2 ends in 2; wine has 3 classes"},
    {{"--preset", "wine", "--model", "convnet"}, 2, "--layers is of an mlp"},
    {{"--preset", "wine", "--scale-lr", "--global-batch", "32"}, 2, "--scale-lr is for steps that"},
    {{"--preset", "wine", "--nesterov"}, 2, "--nesterov needs --optimizer sgd"},
    {{"--preset", "wine", "--beta2", "1"}, 2, "--beta1 and --beta2 are below 1"},
    {{"--preset", "mnist"}, 1, "mnist: train-images-idx3-ubyte.gz is not in this folder"},
    {{"--data", "cifar10", "--ranks", "2"}, 1, "cifar10: cifar-10-batches-bin is not in this"},
    {{"--preset", "wine", "--resume"}, 2, "--resume, --save-every and --keep best need --save"},
    {{"--preset", "wine", "--shares", "1,2"}, 2, "--shares needs --tail once"},
    {{"--preset", "wine", "--ranks", "0"}, 2, "--ranks is \"0\""},
    {{"--preset", "wine", "--config", "/nowhere/x"}, 1, "--config /nowhere/x: No such file"},
    {{"--data", "/nowhere/x.csv", "--layers", "1,1"}, 1, "/nowhere/x.csv"},
    {{"--preset", "wine", "--test", "/nowhere/x.safetensors"}, 1, "/nowhere/x.safetensors"},
    {{"--preset", "wine", "--ranks", "2", "--test", "/nowhere/x.safetensors"},
     1,
     "/nowhere/x.safetensors"},
    {{"--preset", "wine", "--ranks", "2", "--global-batch", "33"}, 2, "does not divide by 2 ranks"},
    {{"--preset", "wine", "--ranks", "2", "--tail", "once", "--shares", "1,2,3"},
     2,
     "2 numbers are expected"},
    {{"--preset", "wine", "--ranks", "2", "--tail", "once", "--shares", "4,0"},
     2,
     "--shares 4,0: the share of rank 1 is 0"},
    {{"--preset", "wine", "--ranks", "2", "--metrics", "/nowhere/m"}, 1, "/nowhere/m"},
    {{"--preset", "wine", "--ranks", "2", "--metrics", "/dev/full", "--epochs", "1"},
     1,
     "/dev/full"},
    {{"--preset", "wine", "--ranks", "2", "--lr", "1e30", "--optimizer", "sgd", "--epochs", "9"},
     2,
     "--lr"},
    {{"--preset", "wine", "--ranks", "3", "--lr", "1e6", "--momentum", "0.99", "--optimizer", "sgd",
      "--epochs", "300"},
     2,
     "has a NaN or an infinity in the gradient of 2."},
    {{"more"}, 2, "unexpected word 'more'"},
};

static void wrong_words_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const char *words[17] = {"train"};
        memcpy(words + 1, wrongs[i].words, sizeof wrongs[i].words);
        rig_run(&rig, NULL, words);
        if (rig.code != wrongs[i].code || !rig_has(rig.err_text, wrongs[i].says))
            fail_msg("%s %s %s %s: exit code %d, \"%s\" is not in: %s", words[1], words[2],
                     words[3], words[4], rig.code, wrongs[i].says, rig.err_text);
        rig_wait_lifeless(&rig);
        rig_end(&rig);
    }
}

/* Of another size, and of another model. */
static void weights_of_another_shape_are_named(void **state)
{
    static const struct {
        const char *file, *ranks, *says;
    } inits[] = {
        {"synth_sgd.w1.init.safetensors", "1", ": dimension 0 of '0.weight' is "},
        {"synth_sgd.w1.init.safetensors", "3", ": dimension 0 of '0.weight' is "},
        {"convnet.w1.init.safetensors", "2", ": has no '0.weight', which the network has"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++) {
        const char *words[] = {"train",        "--preset", "wine", "--ranks",
                               inits[i].ranks, "--init",   NULL,   NULL};
        words[6] = golden(inits[i].file);
        rig_run(&rig, NULL, words);
        if (rig.code != 2 || !rig_has(rig.err_text, inits[i].says))
            fail_msg("exit code %d, \"%s\" is not in: %s", rig.code, inits[i].says, rig.err_text);
        assert_true(rig_has(rig.err_text, inits[i].file));
        rig_wait_lifeless(&rig);
        rig_end(&rig);
    }
}

/* Options from a file; a wrong one is told with its line. */
static void a_file_may_hold_the_options(void **state)
{
    static const struct {
        const char *lines, *says;
    } wrong[] = {
        {"data = wine\nlayers = 13,8,3\n\nlearning-rate = 1\n",
         "job.conf, line 4: unknown option '--learning-rate'; did you mean '--lr'?"},
        {"preset = wine\nlr: 0.1\n", "job.conf, line 2: 'lr: 0.1': a line is `name = value`\n"},
        {"preset = wine\nranks = 2\n",
         "job.conf, line 2: ranks is no option of the training but a flag: gyre train --ranks"},
    };
    const char *words[] = {"train", "--config", NULL, "--epochs", "1", NULL};
    (void)state;
    clean();
    words[2] = in_folder("job.conf");
    write_lines(words[2], "# wine, by hand\ndata = wine\nlayers = 13,8,3 # small\nquiet\n"
                          "optimizer=adam\nepochs = 7\n");
    expect_success(words);
    write_lines(words[2], "preset = wine\nlayers = 13,8,3\n");
    expect_success(words);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_lines(words[2], wrong[i].lines);
        rig_run(&rig, NULL, words);
        assert_int_equal(rig.code, 2);
        assert_true(rig_has(rig.err_text, wrong[i].says));
        rig_end(&rig);
    }
}

/* What stands behind a zero would else be left out without a word. */
static void a_file_with_a_zero_is_no_text(void **state)
{
    static const char bytes[] = "preset = wine\0\nquiet\n";
    const char *words[] = {"train", "--config", NULL, NULL};
    (void)state;
    clean();
    words[2] = in_folder("job.conf");
    FILE *file = fopen(words[2], "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes - 1, file), sizeof bytes - 1);
    assert_int_equal(fclose(file), 0);
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "job.conf: holds a zero byte, so it is no text"));
    rig_end(&rig);
}

static void a_run_of_no_epochs_saves_nothing(void **state)
{
    const char *words[] = {"train", "--preset", "wine", "--epochs", "0", "--save", NULL, NULL};
    (void)state;
    clean();
    words[6] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "no step was made, so nothing is saved in"));
    rig_end(&rig);
}

/* Labels and features that cannot be, in files of the user's. */
static void bad_data_is_named(void **state)
{
    const char *words[] = {"train", "--data", NULL, "--layers", "2,3", "--ranks", "2", NULL};
    (void)state;
    clean();
    words[2] = in_folder("bad.csv");
    write_lines(words[2], "1,2,0\n3,4,\n");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "line 2"));
    rig_end(&rig);
    write_lines(words[2], "");
    rig_run(&rig, NULL, words);
    assert_int_not_equal(rig.code, 0);
    rig_end(&rig);
    write_lines(words[2], "1,2,0\n3,4,1\n"); /* two samples for two ranks, no batch asked for */
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
    words[6] = "4";
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "4 ranks are more than the 2 samples of"));
    rig_end(&rig);
}

/* Eight samples of 400 numbers, alike for a rank: rank 1's gradient of the weights, and nothing
 * else, is beyond a float. */
static void write_too_large(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int sample = 0; sample < 8; sample++) {
        for (int i = 0; i < 400; i++)
            fputs(sample % 2 ? "1e38," : "1,", file);
        fputs("0\n", file);
    }
    assert_int_equal(fclose(file), 0);
}

static void a_gradient_that_is_not_finite_is_named(void **state)
{
    const char *words[] = {"train",   "--data", NULL,      "--layers", "400,50",
                           "--ranks", "2",      "--batch", "4",        "--no-shuffle",
                           "--clip",  "1",      NULL};
    (void)state;
    clean();
    words[2] = in_folder("large.csv");
    write_too_large(words[2]);
    for (int clipped = 1; clipped >= 0; clipped--) {
        words[10] = clipped ? "--clip" : NULL;
        rig_run(&rig, NULL, words);
        assert_int_equal(rig.code, 2);
        assert_true(rig_has(
            rig.err_text,
            "step 1: rank 1 has a NaN or an infinity in the gradient of 0.weight: look at its"));
        rig_wait_lifeless(&rig);
        rig_end(&rig);
    }
}

/* A finite gradient, and a rate that makes too much of it. */
static void weights_that_are_not_finite_are_not_saved(void **state)
{
    char command[700];
    const char *words[] = {"train", "--data",   NULL, "--layers", "1,1", "--loss", "mse", "--lr",
                           "1e6",   "--epochs", "1",  "--ranks",  "2",   "--save", NULL,  NULL};
    (void)state;
    clean();
    words[2] = in_folder("steep.csv");
    words[14] = in_folder("save");
    write_lines(words[2], "1e18,0\n1e18,0\n");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "step 1: '0.weight' holds a NaN or an infinity and is not"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    snprintf(command, sizeof command, "! ls -d %s/step-* 2>/dev/null", in_folder("save"));
    assert_int_equal(system(command), 0);
}

static int count_parts(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* A rank that is killed ends the others, who name it: rank 0 for all of them, if it lives. */
static void kill_and_expect(int rank, const char *says, int most)
{
    const char *words[] = {"train", "--preset", "wine",       "--ranks",
                           "3",     "--epochs", "1000000000", NULL};
    rig_start_endless(&rig, words);
    rig_wait_for(&rig, "epoch 1/");
    rig_signal_rank(&rig, rank, SIGKILL);
    rig_wait_end(&rig);
    assert_int_not_equal(rig.code, 0);
    int times = count_parts(rig.err_text, says);
    if (times < 1 || times > most)
        fail_msg("\"%s\" is there %d times: %s", says, times, rig.err_text);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    kill_and_expect(2, "gyre train: rank 2 ", 1);
    kill_and_expect(0, "gyre train: rank 0 ", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_told),
        cmocka_unit_test(weights_of_another_shape_are_named),
        cmocka_unit_test(a_file_may_hold_the_options),
        cmocka_unit_test(a_file_with_a_zero_is_no_text),
        cmocka_unit_test(bad_data_is_named),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_run_of_no_epochs_saves_nothing),
        cmocka_unit_test(a_gradient_that_is_not_finite_is_named),
        cmocka_unit_test(weights_that_are_not_finite_are_not_saved),
    };
    return cmocka_run_group_tests_name("gyre train, what is wrong", tests, NULL, NULL);
}
