/* gyre train where files are not what they should be: a disk that fills, checkpoints that were
 * damaged, data that are cut or hold what cannot be learnt from. It tells which file and what is
 * wrong, nothing that was good is lost, and what goes on has the bits of a run that met none of
 * it. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- files ------------------------------------------------------------------------------------- */

static long size_of(const char *path)
{
    struct stat status;
    if (stat(path, &status))
        fail_msg("there is no %s", path);
    return (long)status.st_size;
}

static const char *copy_of(const char *path, const char *name)
{
    char command[1200];
    snprintf(command, sizeof command, "cp %s %s", path, in_folder(name));
    assert_int_equal(system(command), 0);
    return in_folder(name);
}

static void patch(const char *path, long at, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void cut(const char *path, long by)
{
    assert_int_equal(truncate(path, size_of(path) - by), 0);
}

static void train_wine(const char *epochs, const char *save)
{
    const char *words[] = {"train", "--preset", "wine", "--ranks",  "2",       "--epochs",
                           epochs,  "--save",   save,   "--resume", "--quiet", NULL};
    rig_run(&rig, NULL, words);
    rig_wait_lifeless(&rig);
}

static void expect_end(int code, const char *text)
{
    if (rig.code != code || !rig_has(rig.err_text, text))
        fail_msg("exit code %d, \"%s\" is not in: %s", rig.code, text, rig.err_text);
    rig_end(&rig);
}

/* -- checkpoints ------------------------------------------------------------------------------- */

static void spoil(const char *generation, const char *file, int way)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/%s", in_folder("save"), generation, file);
    if (way)
        cut(path, 1);
    else
        patch(path, size_of(path) / 2, "\xa5\x5a\xa5\x5a", 4);
}

/* Three steps are an epoch. The newest of two is spoilt, and the one before it serves. */
static void a_damaged_checkpoint_is_passed_over(void **state)
{
    static const char *const files[] = {"model.safetensors", "training.safetensors",
                                        "manifest.json"};
    char whole[600], path[700];
    (void)state;
    clean();
    train_wine("4", in_folder("whole"));
    rig_end(&rig);
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    for (int trial = 0; trial < 6; trial++) {
        char command[700];
        snprintf(command, sizeof command, "rm -rf %s", in_folder("save"));
        assert_int_equal(system(command), 0);
        train_wine("3", in_folder("save"));
        expect_end(0, "");
        spoil("step-00000009", files[trial / 2], trial % 2);
        train_wine("4", in_folder("save"));
        assert_true(rig_has(rig.err_text, files[trial / 2]));
        expect_end(0, "passed over the checkpoint of step 9: ");
        snprintf(path, sizeof path, "%s", saved_model(in_folder("save")));
        assert_true(rig_has(path, "step-00000012"));
        compare_files(whole, path);
    }
}

static void where_all_are_damaged_it_is_told(void **state)
{
    (void)state;
    clean();
    train_wine("2", in_folder("save"));
    expect_end(0, "");
    spoil("step-00000003", "model.safetensors", 0);
    spoil("step-00000006", "training.safetensors", 1);
    train_wine("3", in_folder("save"));
    expect_end(2, "none of its 2 checkpoints can be used: ");
}

/* -- a full disk ------------------------------------------------------------------------------- */

/* In a room of its own with a disk of so many bytes, which later gets more. */
static const char full_disk[] =
    "set -u; cd \"$1\"; tool=$2; mkdir disk\n"
    "mount -t tmpfs -o size=60k none disk || exit 77\n"
    "train() { \"$tool\" train --preset wine --ranks 2 --save disk/save --epochs 6 --quiet $* "
    "2>told; }\n"
    "train; code=$?; cat told; ls disk/save; \"$tool\" inspect disk/save || exit 50\n"
    "[ $code = 1 ] || exit 51\n"
    "[ \"$(ls disk/save | wc -l)\" = 2 ] || exit 52\n"
    "mount -o remount,size=4m disk && train --resume || { cat told; exit 53; }\n"
    "cp disk/save/step-00000018/model.safetensors end\n";

/* 0, an exit code of the above, or 77. */
static int in_a_small_room(char *output, size_t room)
{
    static const char *const ways[] = {"unshare -m", "unshare -rm"};
    char command[3000];
    int code = 77;
    for (int i = 0; i < 2 && code == 77; i++) {
        snprintf(command, sizeof command, "%s true 2>/dev/null && %s sh -c '%s' sh %s %s 2>&1",
                 ways[i], ways[i], full_disk, rig_folder(), rig_tool());
        clean();
        FILE *said = popen(command, "r");
        assert_non_null(said);
        output[fread(output, 1, room - 1, said)] = 0;
        int status = pclose(said);
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
        code = code == 1 && !*output ? 77 : code; /* unshare itself was refused */
    }
    return code;
}

static void a_full_disk_costs_what_is_new(void **state)
{
    char output[8192], whole[600];
    (void)state;
    int code = in_a_small_room(output, sizeof output);
    if (code == 77) {
        print_message("skipped: no disk can be mounted here\n");
        skip();
    }
    if (code)
        fail_msg("%d: %s", code, output);
    assert_true(rig_has(output, " of tensors, is not saved: "));
    assert_true(rig_has(output, "No space left on device"));
    train_wine("6", in_folder("whole"));
    rig_end(&rig);
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    compare_files(whole, in_folder("end"));
}

/* -- data -------------------------------------------------------------------------------------- */

static void expect_refusal(const char *data, const char *option, const char *value,
                           const char *says)
{
    const char *words[] = {"train",   "--data", data,   "--layers", "20,50,30,5",
                           "--ranks", "2",      option, value,      NULL};
    rig_run(&rig, NULL, words);
    rig_wait_lifeless(&rig);
    if (!rig.code || !rig_has(rig.err_text, says))
        fail_msg("exit code %d, \"%s\" is not in: %s", rig.code, says, rig.err_text);
    rig_end(&rig);
}

static void cut_files_are_named(void **state)
{
    static const long by[] = {1, 1000};
    (void)state;
    clean();
    for (int i = 0; i < 2; i++) {
        const char *data = copy_of(golden("synth_sgd.data.safetensors"), "cut.safetensors");
        cut(data, by[i]);
        expect_refusal(data, "--epochs", "1", "cut.safetensors");
        const char *init = copy_of(golden("synth_sgd.w1.init.safetensors"), "init.safetensors");
        cut(init, by[i]);
        expect_refusal(golden("synth_sgd.data.safetensors"), "--init", init, "init.safetensors");
        write_digits(in_folder("x-images-idx3-ubyte"), in_folder("x-labels-idx1-ubyte"), 8);
        cut(in_folder("x-images-idx3-ubyte"), by[i]);
        expect_refusal(in_folder("x-images-idx3-ubyte"), "--epochs", "1", "x-images-idx3-ubyte");
    }
    write_lines(in_folder("empty.safetensors"), "");
    expect_refusal(in_folder("empty.safetensors"), "--epochs", "1", "empty.safetensors");
    write_lines(in_folder("rows.csv"), "1,2,0\n3,4");
    expect_refusal(in_folder("rows.csv"), "--epochs", "1", "line 2");
}

/* Bytes of tensors stand behind the header: of this file first y, then x. */
static void what_cannot_be_learnt_from_is_named(void **state)
{
    static const unsigned char not_a_number[] = {0, 0, 0xc0, 0x7f};
    static const int64_t absurd = 1000, negative = -7;
    uint64_t header;
    (void)state;
    clean();
    const char *good = golden("synth_sgd.data.safetensors");
    FILE *file = fopen(good, "r");
    assert_non_null(file);
    assert_int_equal(fread(&header, 8, 1, file), 1);
    fclose(file);
    patch(copy_of(good, "nan.safetensors"), -4, not_a_number, 4);
    expect_refusal(in_folder("nan.safetensors"), "--epochs", "1",
                   "nan.safetensors: sample 202 has a NaN or an infinity");
    patch(copy_of(good, "label.safetensors"), (long)header + 8, &absurd, 8);
    expect_refusal(in_folder("label.safetensors"), "--epochs", "1", "has 1001 classes");
    patch(copy_of(good, "label.safetensors"), (long)header + 8, &negative, 8);
    expect_refusal(in_folder("label.safetensors"), "--epochs", "1", "sample 0 has label -7");
    write_lines(in_folder("nan.csv"), "1,2,0\n3,nan,1\n");
    expect_refusal(in_folder("nan.csv"), "--epochs", "1", "nan.csv");
    patch(copy_of(golden("synth_sgd.w1.init.safetensors"), "nan-init.safetensors"), -4,
          not_a_number, 4);
    expect_refusal(good, "--init", in_folder("nan-init.safetensors"), "step 1: rank 0 has a NaN");
}

/* The epochs would go on for hours; behind the first one the file loses its samples. */
static void data_cut_while_they_are_read_are_named(void **state)
{
    static float x[4096 * 4];
    static int64_t y[4096];
    static const uint64_t shape[] = {4096, 4}, rows[] = {4096};
    const struct gyre_stored_tensor tensors[] = {{"x", GYRE_STORED_F32, 2, shape, x, 0},
                                                 {"y", GYRE_STORED_I64, 1, rows, y, 0}};
    const char *words[] = {"train",    "--data", NULL,      "--layers", "4,2",
                           "--epochs", "900000", "--ranks", "2",        NULL};
    (void)state;
    clean();
    const char *data = words[2] = in_folder("live.safetensors");
    y[1] = 1;
    assert_int_equal(gyre_safetensors_write(data, tensors, 2, NULL, 0, NULL), 0);
    rig_start(&rig, words);
    rig_wait_for(&rig, "epoch 1/900000");
    assert_int_equal(truncate(data, 4096), 0);
    rig_wait_end(&rig);
    assert_int_not_equal(rig.code, 0);
    if (!rig_has(rig.err_text, "live.safetensors was cut shorter while this process read it"))
        fail_msg("%s", rig.err_text);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_checkpoint_is_passed_over),
        cmocka_unit_test(where_all_are_damaged_it_is_told),
        cmocka_unit_test(a_full_disk_costs_what_is_new),
        cmocka_unit_test(cut_files_are_named),
        cmocka_unit_test(data_cut_while_they_are_read_are_named),
        cmocka_unit_test(what_cannot_be_learnt_from_is_named),
    };
    return cmocka_run_group_tests_name("gyre train and its files", tests, NULL, NULL);
}
