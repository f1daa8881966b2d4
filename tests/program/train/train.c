/* gyre train as its users run it: one rank and many, the same whatever the number of ranks and
 * nodes, with every option that must change nothing, or little. In haste the layouts of ConvNets
 * take turns: half of them have a library's products, the others Gyre's own. */
#include "rig/haste.h"
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- memory ------------------------------------------------------------------------------------ */

/* The largest that any process started so far has been, in KiB: of `gyre train`, a rank. */
static long peak_of_adam(const char *more)
{
    const char *words[] = {"train",
                           "--ranks",
                           "2",
                           "--data",
                           "random:64,1024,10",
                           "--layers",
                           "1024,1024,1024,1024,10",
                           "--optimizer",
                           "adam",
                           "--batch",
                           "4",
                           "--epochs",
                           "1",
                           "--quiet",
                           more,
                           NULL};
    struct rusage usage;
    expect_success(words);
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return usage.ru_maxrss;
}

/* The first test, for a peak never sinks. */
static void a_sharded_rank_needs_less_memory(void **state)
{
    (void)state;
    if (getenv("GYRE_TEST_SLOW")) {
        print_message("skipped: under a sanitizer memory that was freed counts too\n");
        skip();
    }
    long sharded = peak_of_adam("--sharded"), whole = peak_of_adam(NULL);
    if (sharded >= whole)
        fail_msg("a sharded rank took %ld KiB, others %ld", sharded, whole);
}

/* -- any number of ranks ----------------------------------------------------------------------- */

static void run_layout(const char *ranks, const char *nodes, const char *metrics, const char *more)
{
    const char *words[] = {
        "run",      "-n",       ranks,     "--simulate-nodes", nodes,   "--no-prefix", "gyre",
        "train",    "--preset", "wine",    "--global-batch",   "32",    "--tail",      "once",
        "--epochs", "2",        "--quiet", "--metrics",        metrics, more,          NULL};
    words[6] = rig_tool();
    if (!nodes) /* without the flag */
        memmove(words + 3, words + 5, (sizeof words / sizeof *words - 5) * sizeof *words);
    expect_success(words);
}

/* On whatever nodes, to the bit. */
static void six_ranks_are_six_ranks(void)
{
    static const char *const nodes[] = {"3+3", "4+2", "1+5", "2+2+2"};
    static struct metrics even, uneven;
    run_layout("6", NULL, in_folder("even"), NULL);
    read_metrics(in_folder("even"), &even);
    assert_int_equal(even.steps, 10);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        run_layout("6", nodes[i], in_folder("uneven"), NULL);
        read_metrics(in_folder("uneven"), &uneven);
        assert_int_equal(uneven.steps, even.steps);
        assert_memory_equal(uneven.step, even.step, (size_t)even.steps * sizeof *even.step);
        assert_memory_equal(uneven.tested, even.tested, (size_t)even.epochs * sizeof *even.tested);
    }
}

static void ranks_and_nodes_do_not_matter(void **state)
{
    static const char *const layouts[][2] = {
        {"2", NULL}, {"3", NULL}, {"6", "4+2"}, {"4", "1+3"}, {"4", "1+1+2"}};
    static struct metrics alone, many;
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    clean();
    run_layout("1", NULL, in_folder("alone"), NULL);
    read_metrics(in_folder("alone"), &alone);
    assert_int_equal(alone.steps, 10);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        run_layout(layouts[i][0], layouts[i][1], in_folder("many"), NULL);
        read_metrics(in_folder("many"), &many);
        assert_int_equal(many.steps, alone.steps);
        for (int s = 0; s < alone.steps; s++)
            if (!(fabs(many.step[s] - alone.step[s]) <= 1e-6 * alone.step[s]))
                fail_msg("%s ranks on %s: step %d has loss %.9g, alone %.9g", layouts[i][0],
                         layouts[i][1] ? layouts[i][1] : "one node", s + 1, many.step[s],
                         alone.step[s]);
    }
    six_ranks_are_six_ranks();
    run_layout("3", NULL, in_folder("many"), "--sharded");
    read_metrics(in_folder("many"), &many);
    for (int s = 0; s < alone.steps; s++)
        assert_true(fabs(many.step[s] - alone.step[s]) <= 1e-6 * alone.step[s]);
    unsetenv("GYRE_REPRODUCIBLE");
}

static void run_convnet(const char *ranks, const char *nodes, const char *metrics,
                        const char *batch_norm)
{
    const char *words[] = {"run",
                           "-n",
                           ranks,
                           "--simulate-nodes",
                           nodes,
                           "--no-prefix",
                           rig_tool(),
                           "train",
                           "--data",
                           golden("convnet.data.safetensors"),
                           "--model",
                           "convnet",
                           "--global-batch",
                           "16",
                           "--tail",
                           "once",
                           "--epochs",
                           "1",
                           "--lr",
                           "0.01",
                           "--seed",
                           "4",
                           "--quiet",
                           "--metrics",
                           metrics,
                           batch_norm,
                           NULL};
    if (!nodes) /* without the flag */
        memmove(words + 3, words + 5, (sizeof words / sizeof *words - 5) * sizeof *words);
    expect_success(words);
}

static void compare_layouts(const struct metrics *alone, int own)
{
    static const char *const layouts[][2] = {
        {"2", NULL}, {"3", NULL}, {"6", "4+2"}, {"4", "1+3"}, {"4", "1+1+2"}};
    static struct metrics many;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (in_haste() && i % 2 != (size_t)own)
            continue;
        run_convnet(layouts[i][0], layouts[i][1], in_folder("many"), "--sync-batch-norm");
        read_metrics(in_folder("many"), &many);
        assert_int_equal(many.steps, alone->steps);
        for (int s = 0; s < alone->steps; s++)
            if (!(fabs(many.step[s] - alone->step[s]) <= (s ? 1e-6 : 1e-12) * alone->step[s]))
                fail_msg("%s ranks on %s: step %d has loss %.17g, alone %.17g", layouts[i][0],
                         layouts[i][1] ? layouts[i][1] : "one node", s + 1, many.step[s],
                         alone->step[s]);
    }
}

/* A ConvNet normalised over all ranks is the one-rank net; on a rank's own batch it is not. The
 * first step has the same bits, and its loss is a sum of doubles; the others differ by how
 * gradients were added up. With this seed no pooling is near a tie: docs/training.md tells what one
 * does. */
static void batches_may_be_normalised_together(void **state)
{
    static struct metrics alone, apart;
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    for (int own = 0; own < 2; own++) {
        clean();
        setenv("GYRE_BLAS", own ? "own" : "auto", 1);
        run_convnet("1", NULL, in_folder("alone"), "--sync-batch-norm");
        read_metrics(in_folder("alone"), &alone);
        compare_layouts(&alone, own);
    }
    run_convnet("3", NULL, in_folder("apart"), NULL);
    read_metrics(in_folder("apart"), &apart);
    unsetenv("GYRE_REPRODUCIBLE");
    unsetenv("GYRE_BLAS");
    assert_true(fabs(apart.step[0] - alone.step[0]) > 1e-4);
}

/* Two halves of a batch, one after the other, are the batch. */
static void parts_of_a_step_are_the_step(void **state)
{
    static struct metrics whole, parts;
    const char *words[] = {"train",    "--preset", "wine",         "--ranks",   "2",
                           "--epochs", "3",        "--quiet",      "--metrics", NULL,
                           "--batch",  NULL,       "--accumulate", NULL,        "--optimizer",
                           "sgd",      "--lr",     "0.1",          NULL};
    (void)state;
    clean();
    words[9] = in_folder("m");
    for (int run = 0; run < 2; run++) {
        words[11] = run ? "16" : "32";
        words[13] = run ? "2" : "1";
        expect_success(words);
        read_metrics(words[9], run ? &parts : &whole);
        assert_int_equal(unlink(words[9]), 0);
    }
    assert_int_equal(parts.steps, whole.steps);
    for (int s = 0; s < whole.steps; s++)
        if (!(fabs(parts.step[s] - whole.step[s]) <= 1e-6 * whole.step[s]))
            fail_msg("step %d has loss %.9g in parts, %.9g whole", s + 1, parts.step[s],
                     whole.step[s]);
}

static void the_digest_proves_who_saw_what(void **state)
{
    (void)state;
    const char *once[] = {"train", "--preset", "wine", "--ranks",       "3",       "--epochs",
                          "2",     "--tail",   "once", "--data-digest", "--quiet", NULL};
    const char *again[] = {"train",    "--preset", "wine",          "--ranks", "4",
                           "--epochs", "1",        "--data-digest", "--quiet", NULL};
    const char *dropped[] = {"train", "--preset",      "wine",    "--ranks", "4",    "--epochs",
                             "1",     "--data-digest", "--quiet", "--tail",  "drop", NULL};
    rig_run(&rig, NULL, once);
    assert_int_equal(rig.code, 0);
    assert_true(
        rig_has(rig.out_text, "epoch 1: 142 of 142 samples were seen once, 0 again, 0 never"));
    assert_true(rig_has(rig.out_text, "epoch 2, rank 2: 47 samples"));
    rig_end(&rig);
    rig_run(&rig, NULL, again);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "140 of 142 samples were seen once, 2 again, 0 never"));
    assert_true(rig_has(rig.out_text, "epoch 1: seen again: 22 86\n")); /* the order's first two */
    assert_false(rig_has(rig.out_text, "never seen"));
    rig_end(&rig);
    rig_run(&rig, NULL, dropped);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "140 of 142 samples were seen once, 0 again, 2 never"));
    assert_true(rig_has(rig.out_text, "epoch 1: never seen: 103 104\n")); /* its last two */
    rig_end(&rig);
}

/* -- images ------------------------------------------------------------------------------------ */

static void the_preset_for_mnist_learns_digits(void **state)
{
    static struct metrics m;
    const char *words[] = {"train",  "--preset", "mnist",     "--data", NULL,
                           "--test", NULL,       "--ranks",   "2",      "--batch",
                           "30",     "--quiet",  "--metrics", NULL,     NULL};
    (void)state;
    clean();
    words[4] = words[6] = in_folder("train-images-idx3-ubyte");
    write_digits(words[4], in_folder("train-labels-idx1-ubyte"), 600);
    words[13] = in_folder("m");
    expect_success(words);
    read_metrics(words[13], &m);
    assert_int_equal(m.epochs, 2);
    assert_true(m.tested[1] > 0.95);
}

/* Real digits, with the command of docs/training.md. */
static void the_preset_for_digits_learns_them(void **state)
{
    static struct metrics m;
    const char *words[] = {"train",   "--preset",  "digits", "--ranks", "2",
                           "--quiet", "--metrics", NULL,     NULL};
    (void)state;
    clean();
    words[7] = in_folder("m");
    expect_success(words);
    read_metrics(words[7], &m);
    assert_int_equal(m.epochs, 10);
    if (!(m.tested[9] > 0.95))
        fail_msg("test accuracy %g after %d epochs", m.tested[9], m.epochs);
}

/* -- other ways -------------------------------------------------------------------------------- */

/* Options that must change nothing, or little, in where the training goes. */
static void other_ways_go_there_too(void **state)
{
    static const char *const ways[][6] = {
        {"--wire", "bf16"},
        {"--wire", "f16"},
        {"--precision", "bf16"},
        {"--precision", "f16"},
        {"--sharded"},
        {"--accumulate", "2", "--batch", "16"},
        {"--mean", "torch"},
        {"--tail", "drop"},
        {"--shares", "2,1", "--tail", "once"},
        {"--schedule", "cosine", "--warmup", "5", "--lr", "0.003"},
        {"--bucket", "1K"},
        {"--batch", "71"},
    };
    static struct metrics m;
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *words[32] = {"train", "--preset", "wine", "--ranks", "2",        "--epochs",
                                 "40",    "--lr",     "0.01", "--quiet", "--metrics"};
        clean();
        words[11] = in_folder("m");
        for (int k = 0; k < 6 && ways[i][k]; k++)
            words[12 + k] = ways[i][k];
        expect_success(words);
        read_metrics(in_folder("m"), &m);
        if (!(m.epochs == 40 && m.tested[39] >= 0.9))
            fail_msg("%s %s: test accuracy %g after %d epochs", ways[i][0],
                     ways[i][1] ? ways[i][1] : "", m.tested[39], m.epochs);
    }
}

/* Products in halves and gradients in halves change losses by their rounding only. */
static void halves_are_near(void **state)
{
    static const char *const ways[][2] = {{"--precision", "f32"},
                                          {"--precision", "bf16"},
                                          {"--precision", "f16"},
                                          {"--wire", "bf16"}};
    static struct metrics whole, half;
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *words[] = {"train",     "--preset", "wine",     "--ranks",  "2", "--optimizer",
                               "sgd",       "--lr",     "0.1",      "--epochs", "5", "--quiet",
                               "--metrics", NULL,       ways[i][0], ways[i][1], NULL};
        clean();
        words[13] = in_folder("m");
        expect_success(words);
        read_metrics(words[13], i ? &half : &whole);
        for (int s = 0; s < half.steps; s++)
            if (!(fabs(half.step[s] - whole.step[s]) <= 0.02 * whole.step[s]))
                fail_msg("%s %s: step %d has loss %g, not %g", ways[i][0], ways[i][1], s + 1,
                         half.step[s], whole.step[s]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sharded_rank_needs_less_memory),
        cmocka_unit_test(ranks_and_nodes_do_not_matter),
        cmocka_unit_test(batches_may_be_normalised_together),
        cmocka_unit_test(parts_of_a_step_are_the_step),
        cmocka_unit_test(the_digest_proves_who_saw_what),
        cmocka_unit_test(the_preset_for_mnist_learns_digits),
        cmocka_unit_test(the_preset_for_digits_learns_them),
        cmocka_unit_test(other_ways_go_there_too),
        cmocka_unit_test(halves_are_near),
    };
    return cmocka_run_group_tests_name("gyre train", tests, NULL, NULL);
}
