/* `gyre train --elastic`: ranks are killed, and training goes on. No sample is lost, and none
 * counts twice: the steps of each epoch have as many samples as the data. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDE "13,128,128,3"

enum { SAMPLES = 142, EPOCHS = 3000 }; /* of wine, that are trained on; more than anybody waits */

/* Sums the samples of the steps of each epoch, as the metrics have them. */
static void check_samples(const char *path, const char *optimizer)
{
    static double samples[EPOCHS + 2];
    char *text = read_text(path);
    int last = 0;
    memset(samples, 0, sizeof samples);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strstr(line, "\"kind\":\"step\""))
            continue;
        last = (int)read_number(line, "epoch");
        assert_in_range(last, 1, EPOCHS);
        samples[last] += read_number(line, "samples");
    }
    for (int epoch = 1; epoch < last; epoch++)
        if (samples[epoch] != SAMPLES)
            fail_msg("%s: epoch %d has %g samples", optimizer, epoch, samples[epoch]);
    assert_in_range(last, 2, EPOCHS);
    free(text);
}

/* Rank 2 is killed, then rank 1 or rank 0; what is left is told to stop. Layers are wide, so that
 * training is not through while a rank is looked for. */
static void lose_two(int second, const char *optimizer)
{
    const char *words[] = {"train",   "--preset", "wine", "--ranks",   "3",  "--elastic",
                           "1",       "--epochs", "3000", "--batch",   "10", "--tail",
                           "once",    "--test",   "none", "--metrics", NULL, "--optimizer",
                           optimizer, "--layers", WIDE,   NULL};
    clean();
    words[16] = in_folder("run.jsonl");
    rig_start(&rig, words);
    rig_wait_for(&rig, "epoch 2/");
    rig_signal_rank(&rig, 2, SIGKILL);
    rig_wait_for(&rig, "2 ranks go on from step");
    rig_signal_rank(&rig, second, SIGKILL);
    rig_wait_for(&rig, "1 rank goes on from step");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    assert_true(rig_has(rig.out_text, "lost rank 2 on "));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    if (second) /* the one that wrote them lives */
        check_samples(in_folder("run.jsonl"), optimizer);
}

static void training_goes_on_with_every_sample(void **state)
{
    (void)state;
    lose_two(1, "sgd");
    lose_two(1, "adamw");
}

static void whoever_becomes_rank_0_goes_on_with_the_report(void **state)
{
    (void)state;
    lose_two(0, "adam");
}

/* Wide layers, so that few epochs are told, too, while the rank is looked for. */
static void too_few_ranks_end_it(void **state)
{
    const char *words[] = {"train",        "--preset", "wine",     "--ranks",   "3",
                           "--elastic",    "3",        "--epochs", "100000000", "--layers",
                           "13,512,512,3", NULL};
    (void)state;
    clean();
    rig_start(&rig, words);
    rig_wait_for(&rig, "epoch 2/");
    rig_signal_rank(&rig, 1, SIGKILL);
    rig_wait_end(&rig);
    assert_int_not_equal(rig.code, 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void what_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *word[3], *says;
    } cases[] = {{{"--sharded"}, "--sharded leaves each a part"},
                 {{"--shares", "2,1"}, "--shares"},
                 {{"--global-batch", "32"}, "needs --tail once"},
                 {{"--data-digest"}, "leave out --elastic"},
                 {{"--batch", "4", "--elastic=0"}, "--elastic"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words[10] = {"train", "--preset", "wine", "--elastic", "1"};
        memcpy(words + 5, cases[i].word, sizeof cases[i].word);
        rig_run(&rig, NULL, words);
        assert_int_equal(rig.code, 2);
        if (!rig_has(rig.err_text, cases[i].says))
            fail_msg("\"%s\" is not in: %s", cases[i].says, rig.err_text);
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_goes_on_with_every_sample),
        cmocka_unit_test(whoever_becomes_rank_0_goes_on_with_the_report),
        cmocka_unit_test(too_few_ranks_end_it),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
