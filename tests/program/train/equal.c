/* Ranks that were told different things, or hold different weights: all of them end with one code
 * and one message, which names what differs, the values and the ranks. That every option is among
 * what is compared is tested by tests/unit/train/options_test.c. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count_parts(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* -- options and data -------------------------------------------------------------------------- */

/* Three ranks train Wine with these words of a shell; $RANK is theirs. */
static void train(const char *before, const char *words)
{
    char script[2000];
    snprintf(script, sizeof script, "cd %s && %s exec %s train --preset wine --epochs 1 --quiet %s",
             rig_folder(), before, rig_tool(), words);
    rig_run(&rig, NULL, (const char *const[]){"run", "-n", "3", "sh", "-c", script, NULL});
}

/* `says` is behind the host names; {} stands for "(host NAME)". */
static void expect_difference(const char *before, const char *words, const char *says)
{
    char text[600] = "gyre train: ", host[256];
    gethostname(host, sizeof host);
    for (const char *place; (place = strstr(says, "{}")); says = place + 2)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s(host %s)",
                 (int)(place - says), says, host);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", says);
    train(before, words);
    if (rig.code != 2 || count_parts(rig.err_text, text) != 1 ||
        count_parts(rig.err_text, "gyre train:") != 1)
        fail_msg("%s: exit code %d, not one time \"%s\" in:\n%s", words, rig.code, text,
                 rig.err_text);
    assert_true(rig_has(rig.err_text, "failed alike: exit code 2\n"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

#define TWO  "$((RANK / 2))"
#define SAME "; give all ranks the same"

/* Rank 2 is told something else. */
static void what_was_told_differently_is_named(void **state)
{
    static const struct {
        const char *words, *says;
    } scenes[] = {
        {"--seed " TWO, "--seed is 0 on rank 0 {} and 1 on rank 2 {}" SAME},
        {"--tail once --shares 1,1,$((RANK + 1))",
         "--shares is 1,1,1 on rank 0 {} and 1,1,2 on rank 1 {}" SAME},
        {"--lr 0." TWO "1", "--lr is 0.01 on rank 0 {} and 0.11 on rank 2 {}" SAME},
        {"--optimizer $([ $RANK = 2 ] && echo sgd || echo adam)",
         "--optimizer is adam on rank 0 {} and sgd on rank 2 {}" SAME},
        {"$([ $RANK = 2 ] && echo --schedule cosine)",
         "--schedule is constant on rank 0 {} and cosine on rank 2 {}" SAME},
        {"$([ $RANK = 2 ] && echo --weight-decay 0.1)",
         "--weight-decay is not given on rank 0 {} and 0.1 on rank 2 {}" SAME},
        {"--epochs $((RANK / 2 + 1))", "--epochs is 1 on rank 0 {} and 2 on rank 2 {}" SAME},
        {"--batch $((RANK / 2 + 7))", "--batch is 7 on rank 0 {} and 8 on rank 2 {}" SAME},
        {"$([ $RANK = 2 ] && echo --precision bf16)",
         "--precision is f32 on rank 0 {} and bf16 on rank 2 {}" SAME},
        {"$([ $RANK = 0 ] && echo --sharded)",
         "--sharded is yes on rank 0 {} and no on rank 1 {}" SAME},
        {"$([ $RANK = 0 ] && echo --save s)",
         "--save is given on rank 0 {} and not given on rank 1 {}" SAME},
        {"--save s $([ $RANK = 2 ] && echo --keep best)",
         "--keep is 2 on rank 0 {} and best on rank 2 {}" SAME},
        {"--layers 13," TWO "8,3 --seed " TWO,
         "--layers is 13,08,3 on rank 0 {} and 13,18,3 on rank 2 {}, --seed is 0 on rank 0 {} and "
         "1 on rank 2 {}" SAME},
        {"--quiet --lr 0." TWO "1 --seed " TWO " --clip " TWO " --warmup " TWO " --eps 0." TWO,
         "--lr is 0.01 on rank 0 {} and 0.11 on rank 2 {}, --eps is 0 on rank 0 {} and 0.1 on rank "
         "2 {}, --clip is 0 on rank 0 {} and 1 on rank 2 {}, and 2 more differ" SAME},
    };
    (void)state;
    clean();
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        expect_difference("", scenes[i].words, scenes[i].says);
}

/* What rank 0 alone writes, and the same samples in other files. */
static void paths_and_outputs_may_differ(void **state)
{
    (void)state;
    clean();
    train(
        "printf '1,2,0\\n3,4,1\\n5,6,1\\n' >data$RANK.csv && [ $RANK = 0 ] && w='--csv w --svg p';",
        "$w --metrics m$RANK --data data$RANK.csv --test data$RANK.csv --layers 2,2 --batch 1 "
        "--save s$RANK");
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
    rig_end(&rig);
    assert_int_equal(access(in_folder("m0"), F_OK), 0);
    assert_int_not_equal(access(in_folder("m1"), F_OK), 0);
}

static void other_samples_are_named(void **state)
{
    (void)state;
    clean();
    train("printf '1,2,0\\n3,%d,1\\n5,6,1\\n' $((RANK / 2)) >data$RANK.csv &&",
          "--data data$RANK.csv --test data$RANK.csv --layers 2,2 --batch 1");
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "--data is 3 samples of 2 numbers, digest "));
    assert_true(rig_has(rig.err_text, ", --test is 3 samples of 2 numbers, digest "));
    assert_true(rig_has(rig.err_text, ") and 3 samples of 2 numbers, digest "));
    assert_int_equal(count_parts(rig.err_text, " on rank 2 (host "), 2);
    rig_end(&rig);
}

/* Weights of one file each, of which rank 1's are others. */
static void other_weights_to_start_from_are_named(void **state)
{
    char words[1200];
    (void)state;
    clean();
    expect_success((const char *const[]){"train", "--preset", "wine", "--epochs", "1", "--quiet",
                                         "--save", in_folder("a"), NULL});
    expect_success((const char *const[]){"train", "--preset", "wine", "--epochs", "1", "--quiet",
                                         "--seed", "1", "--save", in_folder("b"), NULL});
    snprintf(words, sizeof words, "--init $(ls -d $([ $RANK = 1 ] && echo b || echo a)/step-*)/%s",
             "model.safetensors");
    train("", words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "--init is weights of digest "));
    assert_int_equal(count_parts(rig.err_text, " on rank 1 (host "), 1);
    rig_end(&rig);
}

/* -- weights ----------------------------------------------------------------------------------- */

#define WEIGHTS 104 /* of 13 features to 8 */

/* Weights without a zero in them, as bytes that stand nowhere else. */
static void read_weights(float weights[WEIGHTS])
{
    struct gyre_safetensors *file = open_tensors(saved_model(in_folder("first")));
    const struct gyre_stored_tensor *tensor = gyre_safetensors_find(file, "0.weight");
    assert_non_null(tensor);
    assert_int_equal(tensor->bytes, WEIGHTS * sizeof(float));
    memcpy(weights, tensor->data, tensor->bytes);
    gyre_safetensors_close(file);
}

/* The process of the rank among the tool's children. */
static int find_rank(int rank)
{
    char command[300];
    int pid = 0;
    snprintf(command, sizeof command,
             "for p in $(cat /proc/%d/task/*/children); do "
             "tr '\\0' '\\n' </proc/$p/environ | grep -qx RANK=%d && echo $p; done 2>/dev/null",
             (int)rig.pid, rank);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    assert_int_equal(fscanf(out, "%d", &pid), 1);
    pclose(out);
    return pid;
}

/* Changes the last bit of one weight wherever these weights stand in the mapping; how often. */
static int change_in(int memory, long from, long to, const float *weights)
{
    const size_t bytes = WEIGHTS * sizeof(float);
    char *copy = malloc((size_t)(to - from));
    int places = 0;
    ssize_t got = copy ? pread(memory, copy, (size_t)(to - from), from) : -1;
    for (ssize_t at = 0; at + (ssize_t)bytes <= got; at += 4) {
        if (memcmp(copy + at, weights, bytes) != 0)
            continue;
        char changed = (char)(copy[at] ^ 1);
        assert_int_equal(pwrite(memory, &changed, 1, from + at), 1);
        places++;
    }
    free(copy);
    return places;
}

/* In every mapping of the process that it may write. */
static int change_weights(int pid, const float *weights)
{
    char path[64], line[512];
    int places = 0;
    long from, to;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx rw", (unsigned long *)&from, (unsigned long *)&to) == 2 &&
            strstr(line, " rw") && to - from < 256L << 20)
            places += change_in(memory, from, to, weights);
    fclose(maps);
    close(memory);
    return places;
}

/* An epoch takes so long that few of them are told while the memory is searched. */
#define LONG_EPOCH "random:300000,13,3"

/* A learning rate of 0 keeps the weights, so they are known; a bit of rank 1's is changed under
 * way, and the next end of an epoch finds it. */
static void a_changed_weight_is_found_at_the_end_of_an_epoch(void **state)
{
    float weights[WEIGHTS];
    const char *words[] = {"run",        "-n",     "3",        "--no-prefix", rig_tool(),
                           "train",      "--data", LONG_EPOCH, "--layers",    "13,8,3",
                           "--lr",       "0",      "--epochs", "1000000000",  "--compare-every",
                           "1000000000", "--init", NULL,       NULL};
    char init[1024];
    (void)state;
    clean();
    expect_success((const char *const[]){"train", "--data", "wine", "--layers", "13,8,3", "--lr",
                                         "0", "--epochs", "1", "--quiet", "--save",
                                         in_folder("first"), NULL});
    read_weights(weights);
    snprintf(init, sizeof init, "%s", saved_model(in_folder("first")));
    words[17] = init;
    rig_start(&rig, words);
    rig_wait_for(&rig, "epoch 1/");
    int places = change_weights(find_rank(1), weights);
    if (places < 0) {
        print_message("no rank's memory may be written here\n");
        rig_end(&rig);
        return;
    }
    assert_in_range(places, 1, 8);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 1);
    assert_int_equal(count_parts(rig.err_text, " rank 1 holds other values of '0.weight' than the "
                                               "other ranks: something changed them there only"),
                     1);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_told_differently_is_named),
        cmocka_unit_test(paths_and_outputs_may_differ),
        cmocka_unit_test(other_samples_are_named),
        cmocka_unit_test(other_weights_to_start_from_are_named),
        cmocka_unit_test(a_changed_weight_is_found_at_the_end_of_an_epoch),
    };
    return cmocka_run_group_tests_name("gyre train, equal ranks", tests, NULL, NULL);
}
