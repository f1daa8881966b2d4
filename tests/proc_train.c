/* gyre train as its users run it: PyTorch's losses and weights from PyTorch's starting point, one rank
 * and many, the same whatever the number of ranks and nodes; stopped and resumed; and what is wrong,
 * told. tests/data/golden/README.md says where the reference files are from. */
#include "train_rig.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* -- files ------------------------------------------------------------------------------------- */

/* The numbers of "name": [ … ]. */
static int read_numbers(const char *text, const char *name, double *numbers, int most)
{
    char key[64];
    int count = 0;
    snprintf(key, sizeof key, "\"%s\": [", name);
    const char *at = strstr(text, key);
    assert_non_null(at);
    for (at += strlen(key); *at && *at != ']' && count < most; count++) {
        char *end;
        numbers[count] = strtod(at, &end);
        if (end == at)
            break;
        at = end + strspn(end, ", \n");
    }
    return count;
}

/* -- PyTorch's runs ---------------------------------------------------------------------------- */

struct parity {
    const char *name;
    int world;
    const char *words[24];
};

static const struct parity parities[] = {
    {"wine", 1, {"--preset", "wine"}},
    {"wine", 2, {"--preset", "wine"}},
    {"wine", 4, {"--preset", "wine"}},
#define SYNTH_SGD                                                                                  \
    {                                                                                              \
        "--layers", "20,50,30,5", "--batch", "16", "--epochs", "10", "--optimizer", "sgd", "--lr", \
            "0.05", "--momentum", "0.9", "--weight-decay", "1e-4", "--seed", "3"                   \
    }
    {"synth_sgd", 1, SYNTH_SGD},
    {"synth_sgd", 3, SYNTH_SGD},
    {"synth_adamw_clip",
     2,
     {"--layers", "12,24,4", "--batch", "10", "--epochs", "8", "--optimizer", "adamw", "--lr",
      "0.01", "--weight-decay", "0.05", "--clip", "0.25", "--seed", "5"}},
#define CONVNET                                                                                    \
    {                                                                                              \
        "--model", "convnet", "--batch", "16", "--epochs", "3", "--lr", "0.01"                     \
    }
    {"convnet", 1, CONVNET},
    {"convnet", 2, CONVNET},
};

/* Words for a run from the reference's starting point; returns how many. */
static int parity_words(const struct parity *p, const char **word, const char *data)
{
    static char ranks[16], init[512], metrics[512], save[512];
    int n = 0;
    snprintf(ranks, sizeof ranks, "%d", p->world);
    snprintf(init, sizeof init, "%s.w1.init.safetensors", p->name);
    snprintf(init, sizeof init, "%s", golden(init));
    snprintf(metrics, sizeof metrics, "%s", in_folder("metrics"));
    snprintf(save, sizeof save, "%s", in_folder("save"));
    const char *first[] = {"train",     "--ranks", ranks,    "--init", init,
                           "--metrics", metrics,   "--save", save,     NULL};
    for (; first[n]; n++)
        word[n] = first[n];
    if (strcmp(p->name, "wine") != 0) {
        word[n++] = "--data";
        word[n++] = data;
        word[n++] = "--test";
        word[n++] = data;
    }
    for (int i = 0; p->words[i]; i++)
        word[n++] = p->words[i];
    word[n] = NULL;
    return n;
}

/* Rounding decides a pooling of the ConvNet, see test_golden.c: `rounds_alike` if as PyTorch's. */
static void compare_losses(const struct parity *p, const char *text, const struct metrics *m,
                           bool rounds_alike)
{
    double near = strcmp(p->name, "convnet") == 0 && !rounds_alike ? 5e-4 : 1e-5;
    double step[64], epoch[EPOCHS_MOST], accuracy = read_number(text, "test_accuracy");
    int steps = read_numbers(text, "loss_per_step_first", step, 64);
    int epochs = read_numbers(text, "loss_per_epoch", epoch, EPOCHS_MOST);
    assert_int_equal(m->epochs, epochs);
    for (int i = 0; i < steps && i < 20; i++)
        if (!(fabs(m->step[i] - step[i]) <= near * step[i]))
            fail_msg("%s, %d ranks: step %d has loss %.9g, PyTorch %.9g", p->name, p->world, i + 1,
                     m->step[i], step[i]);
    for (int i = 0; i < epochs; i++)
        if (!(fabs(m->epoch[i] - epoch[i]) <= 1e-3 * epoch[i]))
            fail_msg("%s, %d ranks: epoch %d has loss %.9g, PyTorch %.9g", p->name, p->world, i + 1,
                     m->epoch[i], epoch[i]);
    if (!(fabs(m->tested[epochs - 1] - accuracy) < 1e-6))
        fail_msg("%s, %d ranks: test accuracy %.9g, PyTorch %.9g", p->name, p->world,
                 m->tested[epochs - 1], accuracy);
}

static void compare_weights(const struct parity *p, const char *mine, const char *theirs)
{
    struct gyre_safetensors *a = open_tensors(mine), *b = open_tensors(theirs);
    double apart = 0, length = 0;
    assert_int_equal(gyre_safetensors_count(a), gyre_safetensors_count(b));
    for (uint64_t i = 0; i < gyre_safetensors_count(b); i++) {
        const struct gyre_stored_tensor *want = gyre_safetensors_at(b, i);
        const struct gyre_stored_tensor *got = gyre_safetensors_find(a, want->name);
        assert_non_null(got);
        assert_int_equal(got->bytes, want->bytes);
        if (want->type != GYRE_STORED_F32) {
            assert_memory_equal(got->data, want->data, want->bytes);
            continue;
        }
        for (uint64_t k = 0; k < want->bytes / 4; k++) {
            float x, y;
            memcpy(&x, (const char *)got->data + 4 * k, 4);
            memcpy(&y, (const char *)want->data + 4 * k, 4);
            apart += ((double)x - (double)y) * ((double)x - (double)y);
            length += (double)y * (double)y;
        }
    }
    gyre_safetensors_close(a);
    gyre_safetensors_close(b);
    if (!(sqrt(apart / length) <= 2e-3))
        fail_msg("%s, %d ranks: weights are %.3g apart", p->name, p->world, sqrt(apart / length));
}

static void pytorch_gets_the_same(void **state)
{
    static struct metrics m;
    (void)state;
    for (size_t i = 0; i < sizeof parities / sizeof *parities; i++) {
        const struct parity *p = &parities[i];
        const char *word[64];
        char data[64], name[96];
        snprintf(data, sizeof data, "%s.data.safetensors", p->name);
        clean();
        parity_words(p, word, golden(data));
        rig_run(&rig, NULL, word);
        if (rig.code)
            fail_msg("exit code %d: %s", rig.code, rig.err_text);
        bool rounds_alike = rig_has(rig.err_text, "OpenBLAS");
        rig_end(&rig);
        snprintf(name, sizeof name, "%s.w%d.json", p->name, p->world);
        char *text = read_text(golden(name));
        read_metrics(in_folder("metrics"), &m);
        compare_losses(p, text, &m, rounds_alike);
        free(text);
        snprintf(name, sizeof name, "%s.w%d.final.safetensors", p->name, p->world);
        compare_weights(p, saved_model(in_folder("save")), golden(name));
    }
}

/* -- any number of ranks ----------------------------------------------------------------------- */

static void run_layout(const char *ranks, const char *nodes, const char *metrics, const char *more)
{
    const char *words[] = {
        "run",      "-n",       ranks,     "--simulate-nodes", nodes,   "--no-prefix", "gyre",
        "train",    "--preset", "wine",    "--global-batch",   "32",    "--tail",      "once",
        "--epochs", "2",        "--quiet", "--metrics",        metrics, more,          NULL};
    words[6] = tool();
    if (!nodes) /* without the flag */
        memmove(words + 3, words + 5, (sizeof words / sizeof *words - 5) * sizeof *words);
    expect_success(words);
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
    run_layout("3", NULL, in_folder("many"), "--sharded");
    read_metrics(in_folder("many"), &many);
    for (int s = 0; s < alone.steps; s++)
        assert_true(fabs(many.step[s] - alone.step[s]) <= 1e-6 * alone.step[s]);
    unsetenv("GYRE_REPRODUCIBLE");
}

/* A ConvNet normalised over all ranks is the one-rank net; on a rank's own batch it is not. */
static void batches_may_be_normalised_together(void **state)
{
    static struct metrics alone, many, apart;
    const char *words[] = {"train",
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
                           "0.001",
                           "--quiet",
                           "--metrics",
                           NULL,
                           "--ranks",
                           NULL,
                           "--sync-batch-norm",
                           NULL};
    (void)state;
    clean();
    words[15] = in_folder("m");
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    for (int run = 0; run < 3; run++) {
        words[17] = run ? "3" : "1";
        words[18] = run < 2 ? "--sync-batch-norm" : NULL;
        expect_success(words);
        read_metrics(in_folder("m"), run == 0 ? &alone : run == 1 ? &many : &apart);
    }
    unsetenv("GYRE_REPRODUCIBLE");
    for (int s = 0; s < alone.steps; s++)
        if (!(fabs(many.step[s] - alone.step[s]) <= 1e-5 * alone.step[s]))
            fail_msg("step %d has loss %.9g on three ranks, %.9g on one", s + 1, many.step[s],
                     alone.step[s]);
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

/* -- stopped and resumed ----------------------------------------------------------------------- */

static void train_wine(const char *ranks, const char *epochs, const char *save, const char *metrics)
{
    const char *words[] = {"train",    "--preset", "wine",    "--ranks", ranks,
                           "--epochs", epochs,     "--save",  save,      "--metrics",
                           metrics,    "--resume", "--quiet", NULL};
    expect_success(words);
}

/* In one go, and in two: the same bytes. With another number of ranks it goes on all the same. */
static void a_resumed_run_has_the_same_bits(void **state)
{
    static struct metrics m;
    char whole[1024];
    (void)state;
    clean();
    train_wine("2", "6", in_folder("whole"), in_folder("m1"));
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    train_wine("2", "4", in_folder("parts"), in_folder("m2"));
    train_wine("2", "6", in_folder("parts"), in_folder("m2"));
    compare_files(whole, saved_model(in_folder("parts")));
    read_metrics(in_folder("m2"), &m);
    assert_int_equal(m.steps, 18);
    assert_int_equal(m.epochs, 6);
    train_wine("3", "8", in_folder("parts"), in_folder("m2"));
    read_metrics(in_folder("m2"), &m);
    assert_int_equal(m.epochs, 8);
    assert_true(m.epoch[7] < m.epoch[5]);
}

static void stop_by(int number, int code)
{
    const char *words[] = {"train",      "--preset", "wine", "--ranks",   "2",  "--epochs",
                           "1000000000", "--save",   NULL,   "--metrics", NULL, NULL};
    clean();
    words[8] = in_folder("save");
    words[10] = in_folder("metrics");
    rig_start(&rig, words);
    rig_wait_for(&rig, "epoch");
    rig_signal(&rig, number);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, code);
    assert_true(rig_has(rig.err_text, "stopped by a signal behind step"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    struct gyre_safetensors *file = open_tensors(saved_model(in_folder("save")));
    assert_int_equal(gyre_safetensors_count(file), 4);
    gyre_safetensors_close(file);
}

static void a_signal_saves_and_stops_all(void **state)
{
    (void)state;
    stop_by(SIGTERM, 128 + SIGTERM);
    stop_by(SIGUSR1, 0);
}

static void train_long(const char *save, const char *metrics, int stops, const char *tail,
                       const char *sharded)
{
    const char *words[] = {
        "train", "--preset", "wine",   "--ranks",   "2",     "--epochs", "300",          "--batch",
        "2",     "--save",   save,     "--metrics", metrics, "--resume", "--save-every", "1000",
        "--svg", NULL,       "--tail", tail,        sharded, NULL};
    words[17] = in_folder("curve.svg");
    for (int stop = 0; stop < stops; stop++) {
        rig_start(&rig, words);
        rig_wait_for(&rig, "epoch");
        rig_signal(&rig, SIGUSR1);
        rig_wait_end(&rig);
        assert_int_equal(rig.code, 0);
        rig_end(&rig);
    }
    expect_success(words);
}

/* Wherever it is stopped, mostly within an epoch: weights and the losses of epochs are the same. */
static void stop_and_compare(const char *tail, const char *sharded)
{
    char whole[1024], command[2600];
    clean();
    train_long(in_folder("whole"), in_folder("m1"), 0, tail, sharded);
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    train_long(in_folder("parts"), in_folder("m2"), 3, tail, sharded);
    compare_files(whole, saved_model(in_folder("parts")));
    snprintf(command, sizeof command,
             "cd %s && for m in m1 m2; do grep '\"epoch\",' $m | "
             "sed 's/.*\"epoch\":\\([0-9]*\\).*\"loss\":\\([^,]*\\).*/\\1 \\2/' >$m.epochs; done; "
             "test $(wc -l <m1.epochs) = 300 && cmp m1.epochs m2.epochs",
             rig_folder());
    assert_int_equal(system(command), 0);
}

static void a_stop_leaves_no_trace(void **state)
{
    (void)state;
    stop_and_compare("repeat", NULL);
    stop_and_compare("drop", NULL);
    stop_and_compare("once", "--sharded");
}

static void the_digest_proves_who_saw_what(void **state)
{
    (void)state;
    const char *once[] = {"train", "--preset", "wine", "--ranks",       "3",       "--epochs",
                          "2",     "--tail",   "once", "--data-digest", "--quiet", NULL};
    const char *again[] = {"train",    "--preset", "wine",          "--ranks", "4",
                           "--epochs", "1",        "--data-digest", "--quiet", NULL};
    rig_run(&rig, NULL, once);
    assert_int_equal(rig.code, 0);
    assert_true(
        rig_has(rig.err_text, "epoch 0: 142 of 142 samples were seen once, 0 again, 0 never"));
    assert_true(rig_has(rig.err_text, "epoch 1, rank 2: 47 samples"));
    rig_end(&rig);
    rig_run(&rig, NULL, again);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.err_text, "140 of 142 samples were seen once, 2 again, 0 never"));
    rig_end(&rig);
}

/* -- images ------------------------------------------------------------------------------------ */

/* An IDX file of bytes: `sizes` and then `bytes` of them, from a function of the place. */
static void write_idx(const char *path, const unsigned *size, int dims,
                      unsigned char (*at)(unsigned))
{
    FILE *file = fopen(path, "w");
    unsigned bytes = 1;
    assert_non_null(file);
    fprintf(file, "%c%c%c%c", 0, 0, 8, dims);
    for (int d = 0; d < dims; bytes *= size[d++])
        fprintf(file, "%c%c%c%c", size[d] >> 24, size[d] >> 16 & 255, size[d] >> 8 & 255,
                size[d] & 255);
    for (unsigned i = 0; i < bytes; i++)
        fputc(at(i), file);
    assert_int_equal(fclose(file), 0);
}

static unsigned char digit(unsigned image)
{
    return (unsigned char)(image * 7 % 10);
}

/* A bright row for each digit, on noise. */
static unsigned char pixel(unsigned i)
{
    unsigned row = i / 28 % 28, noise = (i * 2654435761u) >> 27;
    return (unsigned char)(row / 2 == 2u + digit(i / 784) ? 220 + noise : noise);
}

static void the_preset_for_mnist_learns_digits(void **state)
{
    static const unsigned sizes[] = {600, 28, 28};
    static struct metrics m;
    const char *words[] = {"train",  "--preset", "mnist",     "--data", NULL,
                           "--test", NULL,       "--ranks",   "2",      "--batch",
                           "30",     "--quiet",  "--metrics", NULL,     NULL};
    (void)state;
    clean();
    write_idx(in_folder("train-labels-idx1-ubyte"), sizes, 1, digit);
    words[4] = words[6] = in_folder("train-images-idx3-ubyte");
    write_idx(words[4], sizes, 3, pixel);
    words[13] = in_folder("m");
    expect_success(words);
    read_metrics(words[13], &m);
    assert_int_equal(m.epochs, 2);
    assert_true(m.tested[1] > 0.95);
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
        {"--batch", "100000"},
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

/* -- what is wrong ----------------------------------------------------------------------------- */

struct wrong {
    const char *words[14]; /* behind "train" */
    int code;
    const char *says;
};

static const struct wrong wrongs[] = {
    {{NULL}, 2, "nothing to train on: --data FILE"},
    {{"--data", "wine"}, 2, "an mlp needs --layers"},
    {{"--preset", "vine"}, 2, "did you mean \"wine\"?"},
    {{"--preset", "wine", "--bacth", "3"}, 2, "did you mean '--batch'?"},
    {{"--preset", "wine", "--batch", "0"}, 2, "--batch"},
    {{"--preset", "wine", "--batch"}, 2, "--batch"},
    {{"--preset", "wine", "--lr", "fast"}, 2, "--lr fast: a number from 0 to"},
    {{"--preset", "wine", "--optimizer", "adma"}, 2, "did you mean \"adam\"?"},
    {{"--preset", "wine", "--layers", "12,3"},
     2,
     "--layers 12,3 begins with 12; samples of wine have 13"},
    {{"--preset", "wine", "--layers", "13,2"}, 2, "--layers 13,2 ends in 2; wine has 3 classes"},
    {{"--preset", "wine", "--model", "convnet"}, 2, "--layers is of an mlp"},
    {{"--preset", "wine", "--nesterov"}, 2, "--nesterov needs --optimizer sgd"},
    {{"--preset", "wine", "--resume"}, 2, "--resume and --save-every need --save"},
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

/* Options from a file; a wrong one is told with its line. */
static void a_file_may_hold_the_options(void **state)
{
    const char *words[] = {"train", "--config", NULL, "--epochs", "1", NULL};
    (void)state;
    clean();
    words[2] = in_folder("job.conf");
    write_lines(words[2], "# wine, by hand\ndata = wine\nlayers = 13,8,3 # small\nquiet\n"
                          "optimizer=adam\nepochs = 7\n");
    expect_success(words);
    write_lines(words[2], "data = wine\nlayers = 13,8,3\n\nlearning-rate = 1\n");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "job.conf, line 4: unknown option '--learning-rate'"));
    rig_end(&rig);
}

static void a_checkpoint_of_another_model_is_refused(void **state)
{
    const char *words[] = {"train", "--preset", "wine",    "--layers", "13,32,3", "--save",
                           NULL,    "--resume", "--quiet", "--ranks",  "2",       NULL};
    (void)state;
    clean();
    train_wine("1", "1", in_folder("save"), in_folder("m"));
    words[6] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "0.bias") || rig_has(rig.err_text, "0.weight"));
    rig_end(&rig);
}

/* Labels and features that cannot be, in files of the user's. */
static void bad_data_is_named(void **state)
{
    const char *words[] = {"train", "--data", NULL, "--layers", "2,3", "--ranks", "2", NULL};
    (void)state;
    clean();
    words[2] = in_folder("bad.csv");
    write_lines(words[2], "1,2,0\n3,4,-1\n");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "line 2"));
    rig_end(&rig);
    write_lines(words[2], "");
    rig_run(&rig, NULL, words);
    assert_int_not_equal(rig.code, 0);
    rig_end(&rig);
    write_lines(words[2], "1,2,0\n3,4,1\n"); /* two samples for two ranks, batches of 32 */
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
    words[6] = "4"; /* and for four, of which two get theirs again */
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
}

/* One rank reads another file. */
static void different_data_are_told(void **state)
{
    char script[1200];
    const char *words[] = {"run", "-n", "3", "--no-prefix", "sh", "-c", script, NULL};
    (void)state;
    clean();
    write_lines(in_folder("data0.csv"), "1,2,0\n3,4,1\n5,6,1\n");
    write_lines(in_folder("data1.csv"), "1,2,0\n3,4,1\n5,6,1\n");
    write_lines(in_folder("data2.csv"), "1,2,0\n3,4,1\n5,7,1\n");
    snprintf(script, sizeof script, "exec %s train --data %s/data$RANK.csv --layers 2,2 --epochs 1",
             tool(), rig_folder());
    rig_run(&rig, NULL, words);
    assert_int_not_equal(rig.code, 0);
    assert_true(rig_has(rig.err_text, "rank 2 has other data in"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* A rank that is killed ends the others, who name it. */
static void a_killed_rank_is_named(void **state)
{
    const char *words[] = {"train", "--preset", "wine",       "--ranks",
                           "3",     "--epochs", "1000000000", NULL};
    char command[600];
    (void)state;
    rig_start(&rig, words);
    rig_wait_for(&rig, "epoch");
    snprintf(command, sizeof command,
             "{ for p in $(cat /proc/%d/task/*/children); do "
             "tr '\\0' '\\n' </proc/$p/environ | grep -qx RANK=2 && kill -9 $p; done; } "
             "2>/dev/null; true",
             (int)rig.pid);
    assert_int_equal(system(command), 0);
    rig_wait_end(&rig);
    assert_int_not_equal(rig.code, 0);
    assert_true(rig_has(rig.err_text, "rank 2"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pytorch_gets_the_same),
        cmocka_unit_test(ranks_and_nodes_do_not_matter),
        cmocka_unit_test(batches_may_be_normalised_together),
        cmocka_unit_test(parts_of_a_step_are_the_step),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_stop_leaves_no_trace),
        cmocka_unit_test(a_signal_saves_and_stops_all),
        cmocka_unit_test(the_digest_proves_who_saw_what),
        cmocka_unit_test(the_preset_for_mnist_learns_digits),
        cmocka_unit_test(other_ways_go_there_too),
        cmocka_unit_test(halves_are_near),
        cmocka_unit_test(wrong_words_are_told),
        cmocka_unit_test(a_file_may_hold_the_options),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(bad_data_is_named),
        cmocka_unit_test(different_data_are_told),
        cmocka_unit_test(a_killed_rank_is_named),
    };
    return cmocka_run_group_tests_name("gyre train", tests, NULL, NULL);
}
