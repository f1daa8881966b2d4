/* Every option of gyre train does what it is for: stated, its default changes no bit; another value
 * changes the losses. What --help lists and nobody tries here is an offence. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MOST 8

/* -- losses ------------------------------------------------------------------------------------ */

/* Two epochs of Wine on two ranks. */
static void train(const char *const more[WORDS_MOST], struct metrics *m)
{
    const char *words[11 + WORDS_MOST + 1] = {"train",    "--preset", "wine",    "--ranks",  "2",
                                              "--epochs", "2",        "--quiet", "--metrics"};
    words[9] = in_folder("m");
    for (int i = 0; i < WORDS_MOST && more[i]; i++)
        words[10 + i] = more[i];
    clean();
    expect_success(words);
    read_metrics(in_folder("m"), m);
}

struct trial {
    const char *words[WORDS_MOST];
    const char *beside[WORDS_MOST]; /* what it is compared with; none: nothing more is said */
};

#define SGD "--optimizer", "sgd", "--lr", "0.1"

/* Words that say what holds anyway. */
static const struct trial alike[] = {
    {{"--data", "wine", "--test", "wine:test"}, {NULL}},
    {{"--model", "mlp", "--layers", "13,64,3", "--loss", "cross-entropy"}, {NULL}},
    {{"--precision", "f32", "--wire", "f32", "--sync-batch-norm"}, {NULL}},
    {{"--device", "cpu"}, {NULL}}, /* cuda: device.sh */
    {{"--optimizer", "adam", "--lr", "0.001", "--weight-decay", "0"}, {NULL}},
    {{"--beta1", "0.9", "--beta2", "0.999", "--eps", "1e-8"}, {NULL}},
    {{"--schedule", "constant", "--warmup", "0", "--seed", "0"}, {NULL}},
    {{"--schedule", "step"}, {NULL}}, /* every 30 epochs */
    {{"--schedule", "step", "--step-size", "1", "--gamma", "1"}, {NULL}},
    {{"--schedule", "cosine", "--least-lr", "0"}, {"--schedule", "cosine"}},
    {{"--batch", "32", "--accumulate", "1", "--mean", "samples"}, {NULL}},
    {{"--global-batch", "64"}, {NULL}},
    {{"--tail", "repeat", "--data-digest"}, {NULL}},
    {{"--tail", "once", "--shares", "1,1"}, {"--tail", "once"}},
    {{"--sharded"}, {NULL}}, /* two ranks: their sums have one order */
    {{"--bucket", "1K"}, {NULL}},
    {{"--compare-every", "1"}, {NULL}},
    {{SGD, "--momentum", "0"}, {SGD}},
    {{SGD, "--clip", "1e30"}, {SGD}},
    {{"--backend", "tcp"}, {NULL}},
    {{"--lr", "0.001", "--scale-lr"}, {"--lr", "0.002"}}, /* of two ranks */
};

static const struct trial unlike[] = {
    {{"--data", "wine:test"}, {NULL}},
    {{"--validation", "0.5"}, {NULL}},
    {{"--layers", "13,32,3"}, {NULL}},
    {{"--precision", "bf16"}, {NULL}},
    {{"--wire", "bf16"}, {NULL}},
    {{"--optimizer", "sgd"}, {NULL}},
    {{"--optimizer", "adamw", "--weight-decay", "0.1"}, {"--optimizer", "adamw"}},
    {{"--lr", "0.002"}, {NULL}},
    {{"--scale-lr"}, {NULL}},
    {{"--weight-decay", "0.1"}, {NULL}},
    {{"--beta1", "0.8"}, {NULL}},
    {{"--beta2", "0.99"}, {NULL}},
    {{"--eps", "1e-2"}, {NULL}},
    {{SGD, "--momentum", "0.9"}, {SGD}},
    {{SGD, "--momentum", "0.9", "--nesterov"}, {SGD, "--momentum", "0.9"}},
    {{SGD, "--clip", "0.1"}, {SGD}},
    {{"--schedule", "step", "--step-size", "1"}, {NULL}},
    {{"--schedule", "step", "--step-size", "1", "--gamma", "0.5"},
     {"--schedule", "step", "--step-size", "1"}},
    {{"--schedule", "cosine"}, {NULL}},
    {{"--schedule", "cosine", "--least-lr", "0.0005"}, {"--schedule", "cosine"}},
    {{"--warmup", "3"}, {NULL}},
    {{"--batch", "16"}, {NULL}},
    {{"--global-batch", "32"}, {NULL}},
    {{"--accumulate", "2"}, {NULL}},
    {{"--seed", "1"}, {NULL}},
    {{"--no-shuffle"}, {NULL}},
    {{"--ranks", "3", "--mean", "torch", "--tail", "once"}, {"--ranks", "3", "--tail", "once"}},
    {{"--ranks", "3", "--tail", "drop"}, {"--ranks", "3"}},
    {{"--tail", "once", "--shares", "2,1"}, {"--tail", "once"}},
};

static bool same_losses(const struct trial *trial)
{
    static struct metrics with, without, plain;
    train(trial->words, &with);
    if (trial->beside[0] || !plain.steps)
        train(trial->beside, trial->beside[0] ? &without : &plain);
    if (!trial->beside[0])
        without = plain;
    return with.steps == without.steps && with.epochs == without.epochs &&
           memcmp(with.step, without.step, (size_t)with.steps * sizeof *with.step) == 0 &&
           memcmp(with.epoch, without.epoch, (size_t)with.epochs * sizeof *with.epoch) == 0;
}

static void say(const struct trial *trial, const char *what)
{
    char words[256] = "";
    for (int i = 0; i < WORDS_MOST && trial->words[i]; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), " %s", trial->words[i]);
    fail_msg("%s%s", what, words);
}

static void what_holds_anyway_may_be_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (!same_losses(&alike[i]))
            say(&alike[i], "losses are others with");
}

static void what_is_asked_for_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        if (same_losses(&unlike[i]))
            say(&unlike[i], "losses are the same with");
}

/* -- files ------------------------------------------------------------------------------------- */

static int count_in_folder(const char *pattern)
{
    char command[700];
    int count = -1;
    snprintf(command, sizeof command, "ls -d %s/%s 2>/dev/null | wc -l", rig_folder(), pattern);
    FILE *counted = popen(command, "r");
    assert_non_null(counted);
    assert_int_equal(fscanf(counted, "%d", &count), 1);
    pclose(counted);
    return count;
}

static void generations(const char *const more[WORDS_MOST], int kept, const char *newest)
{
    char name[64];
    const char *words[11 + WORDS_MOST + 1] = {"train",    "--preset", "wine",    "--ranks", "2",
                                              "--epochs", "5",        "--quiet", "--save"};
    words[9] = in_folder("save");
    for (int i = 0; i < WORDS_MOST && more[i]; i++)
        words[10 + i] = more[i];
    clean();
    expect_success(words);
    assert_int_equal(count_in_folder("save/*"), kept);
    snprintf(name, sizeof name, "save/step-000000%s", newest);
    assert_int_equal(count_in_folder(name), 1);
}

/* Three steps are an epoch. */
static void generations_are_kept_as_asked(void **state)
{
    (void)state;
    generations((const char *[WORDS_MOST]){NULL}, 2, "12");
    generations((const char *[WORDS_MOST]){"--keep", "4"}, 4, "06");
    generations((const char *[WORDS_MOST]){"--keep", "1"}, 1, "15");
    generations((const char *[WORDS_MOST]){"--keep", "9", "--save-every", "2"}, 3, "06");
    assert_int_equal(count_in_folder("save/step-00000009"), 0);
    assert_int_equal(count_in_folder("save/step-00000015"), 1); /* the end, whatever it is */
}

static int count_lines(const char *name, const char *with)
{
    int count = 0;
    char *text = read_text(in_folder(name));
    for (const char *at = text; (at = strstr(at, with)); at++)
        count++;
    free(text);
    return count;
}

static void whatever_is_to_be_written_is(void **state)
{
    char tensorboard[600], command[1600];
    const char *words[] = {
        "train",     "--preset", "wine",   "--ranks", "2",        "--epochs", "3",
        "--metrics", NULL,       "--csv",  NULL,      "--svg",    NULL,       "--tensorboard",
        tensorboard, "--quiet",  "--save", NULL,      "--resume", NULL};
    (void)state;
    clean();
    words[8] = in_folder("run.jsonl");
    words[10] = in_folder("run.csv");
    words[12] = in_folder("run.svg");
    snprintf(tensorboard, sizeof tensorboard, "%s/boards/wine", rig_folder());
    char *save = strdup(in_folder("save"));
    words[17] = save;
    expect_success(words);
    free(save);
    assert_int_equal(count_lines("run.jsonl", "\"kind\":\"step\""), 9);
    assert_int_equal(count_lines("run.jsonl", "\"kind\":\"epoch\""), 3);
    assert_int_equal(count_lines("run.csv", "\n"), 10);
    assert_int_equal(count_lines("run-epochs.csv", "\n"), 4);
    assert_int_equal(count_lines("run.svg", "</svg>"), 1);
    assert_int_equal(count_in_folder("boards/wine/events.out.tfevents.*"), 1);
    snprintf(command, sizeof command,
             "test $(grep -ao train/loss %s/* | wc -l) = 9 && test $(grep -ao epoch/test_loss %s/* "
             "| wc -l) = 3",
             tensorboard, tensorboard);
    assert_int_equal(system(command), 0);
}

/* A preset's test set is taken back, and in a file too. */
static void a_test_set_may_be_none(void **state)
{
    static const char *const words[][8] = {
        {"train", "--preset", "wine", "--test", "none", "--epochs", "1"},
        {"train", "--config", NULL, "--epochs", "1"},
        {"train", "--preset", "wine", "--epochs", "1"}};
    (void)state;
    clean();
    FILE *file = fopen(in_folder("none.conf"), "w");
    assert_non_null(file);
    fputs("preset = wine\ntest = none\n", file);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 3; i++) {
        const char *typed[9] = {NULL};
        memcpy(typed, words[i], sizeof words[i]);
        typed[2] = typed[2] ? typed[2] : in_folder("none.conf");
        rig_run(&rig, NULL, typed);
        assert_int_equal(rig.code, 0);
        assert_true(rig_has(rig.out_text, "test accuracy") == (i == 2));
        rig_end(&rig);
    }
}

/* A pair of IDX files each for training and test, under any name; packed they are the same. */
static void images_may_have_their_labels_elsewhere(void **state)
{
    static struct metrics plain, packed;
    char pixels[600], labels[600], command[1400];
    const char *words[] = {"train",   "--preset", "mnist", "--data",        pixels,      "--labels",
                           labels,    "--test",   pixels,  "--test-labels", labels,      "--ranks",
                           "2",       "--epochs", "1",     "--quiet",       "--metrics", NULL,
                           "--batch", "20",       NULL};
    (void)state;
    clean();
    words[17] = in_folder("m");
    snprintf(pixels, sizeof pixels, "%s/pixels", rig_folder());
    snprintf(labels, sizeof labels, "%s/which", rig_folder());
    write_digits(pixels, labels, 80);
    expect_success(words);
    read_metrics(words[17], &plain);
    assert_int_equal(plain.steps, 2);
    snprintf(command, sizeof command, "gzip %s %s && rm %s", pixels, labels, words[17]);
    assert_int_equal(system(command), 0);
    strcat(pixels, ".gz");
    strcat(labels, ".gz");
    rig_run(&rig, NULL, words);
    bool built_without = rig_has(rig.err_text, "built without zlib");
    rig_end(&rig);
    if (built_without) {
        print_message("built without zlib\n");
        return;
    }
    read_metrics(words[17], &packed);
    assert_int_equal(packed.steps, 2);
    assert_memory_equal(packed.step, plain.step, 2 * sizeof *plain.step);
    assert_true(packed.tested[0] == plain.tested[0] && plain.tested[0] >= 0);
    words[5] = "--batch"; /* what is beside them is not found by such names */
    words[6] = "20";
    rig_run(&rig, NULL, words);
    assert_int_not_equal(rig.code, 0);
    assert_true(rig_has(rig.err_text, "which file has the labels? Name it with --labels"));
    rig_end(&rig);
}

/* -- all of them ------------------------------------------------------------------------------- */

/* Tried above but for losses, in program/train/parity (init), program/train/resume (resume),
 * program/train/evaluate, program/train/best (patience), program/train/scale, program/train/scaling
 * (scaling, markdown), program/train/table (label-column), program/train/restarts,
 * program/train/elastic, program/cli/cli (devices) and program/train/wrong (config). */
static const char *const others[] = {
    "--label-column", "--labels",  "--test-labels", "--init",     "--epochs",   "--save",
    "--save-every",   "--keep",    "--resume",      "--metrics",  "--csv",      "--svg",
    "--tensorboard",  "--quiet",   "--evaluate",    "--ranks",    "--devices",  "--preset",
    "--config",       "--help",    "--scaling",     "--markdown", "--patience", "--scale",
    "--restarts",     "--elastic",
};

static bool has_word(const struct trial *trial, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < WORDS_MOST && trial[i].words[k]; k++)
            if (strcmp(trial[i].words[k], word) == 0)
                return true;
    return false;
}

static bool is_tried(const char *word)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], word) == 0)
            return true;
    return has_word(alike, sizeof alike / sizeof *alike, word) ||
           has_word(unlike, sizeof unlike / sizeof *unlike, word);
}

static void every_option_is_tried(void **state)
{
    char word[64] = "--";
    int options = 0;
    (void)state;
    rig_run(&rig, NULL, (const char *const[]){"train", "--help", NULL});
    assert_int_equal(rig.code, 0);
    for (const char *line = rig.out_text; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n ");
        line += strncmp(line, "-h, ", 4) ? 0 : 4;
        if (sscanf(line, "--%60[-a-z0-9]", word + 2) != 1)
            continue;
        options++;
        if (!is_tried(word))
            fail_msg("nobody tries %s", word);
    }
    assert_true(options > 50);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_tried),
        cmocka_unit_test(what_holds_anyway_may_be_said),
        cmocka_unit_test(what_is_asked_for_counts),
        cmocka_unit_test(generations_are_kept_as_asked),
        cmocka_unit_test(whatever_is_to_be_written_is),
        cmocka_unit_test(a_test_set_may_be_none),
        cmocka_unit_test(images_may_have_their_labels_elsewhere),
    };
    return cmocka_run_group_tests_name("gyre train, every option", tests, NULL, NULL);
}
