/* gyre train from PyTorch's starting point, on one rank and several: PyTorch's losses and weights.
 * tests/data/golden/README.md says where the reference files are from. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    const char *core; /* that OpenBLAS is to multiply as; NULL: its own choice */
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
#define SYNTH_ADAMW                                                                                \
    "--layers", "12,24,4", "--batch", "10", "--epochs", "8", "--optimizer", "adamw", "--lr",       \
        "0.01", "--weight-decay", "0.05", "--clip", "0.25", "--seed", "5"
    {"synth_adamw_clip", 2, {SYNTH_ADAMW}},
    {"synth_adamw_clip", 2, {SYNTH_ADAMW, "--sharded"}},
#define CONVNET                                                                                    \
    {                                                                                              \
        "--model", "convnet", "--batch", "16", "--epochs", "3", "--lr", "0.01"                     \
    }
    {"convnet", 1, CONVNET},
    {"convnet", 2, CONVNET},
    {"convnet", 1, CONVNET, "Haswell"},
    {"convnet", 2, CONVNET, "Haswell"},
};

/* What the reference was made with; some CPU does not have its instructions. */
static bool has_core(const char *core)
{
#if defined(__x86_64__)
    return !core || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#else
    return !core;
#endif
}

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

/* Rounding decides a pooling of the ConvNet, see tests/unit/model/nets/golden_test.c:
 * `rounds_alike` if as PyTorch's. */
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
        if (!has_core(p->core))
            continue;
        unsetenv("OPENBLAS_CORETYPE");
        if (p->core)
            setenv("OPENBLAS_CORETYPE", p->core, 1);
        snprintf(data, sizeof data, "%s.data.safetensors", p->name);
        clean();
        parity_words(p, word, golden(data));
        rig_run(&rig, NULL, word);
        if (rig.code)
            fail_msg("exit code %d: %s", rig.code, rig.err_text);
        bool rounds_alike = rig_has(rig.out_text, "OpenBLAS") && !rig_has(rig.out_text, "SkylakeX");
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

/* Counts what the test before has left out. */
static void no_reference_is_left_out(void **state)
{
    int missing = 0;
    (void)state;
    for (size_t i = 0; i < sizeof parities / sizeof *parities; i++)
        if (!has_core(parities[i].core)) {
            print_message("skipped: %s with %d ranks: this CPU is none of %s\n", parities[i].name,
                          parities[i].world, parities[i].core);
            missing++;
        }
    if (missing)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pytorch_gets_the_same),
        cmocka_unit_test(no_reference_is_left_out),
    };
    return cmocka_run_group_tests_name("gyre train as PyTorch", tests, NULL, NULL);
}
