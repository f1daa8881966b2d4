/* Checkpoints: what was saved is read bit for bit, what is damaged in any byte is passed over with
 * its name and reason, and what belongs to another model is refused. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig/checkpoint_rig.h"

#include "checkpoint/inside.h"
#include "rig/test.h"

static struct gyre_trouble trouble;
static char folder[256];

/* Each test has a folder of its own. */
static int fresh(void **state)
{
    static int number;
    (void)state;
    trouble = (struct gyre_trouble){0};
    snprintf(folder, sizeof folder, "%s/%d", file_room, number++);
    setenv("GYRE_LOG", "error", 1);
    return 0;
}

static const char *path_of(uint64_t step, const char *file)
{
    static char path[GYRE_GENERATION_PATH_MAX];
    gyre_generation_path(path, folder, step, file, NULL);
    return path;
}

static bool there(uint64_t step)
{
    return access(path_of(step, NULL), F_OK) == 0;
}

static void save(uint64_t step)
{
    trouble = (struct gyre_trouble){0};
    if (rig_save(folder, step, &trouble))
        fail_msg("%s", trouble.text);
}

/* Opens the step, with `count` newer ones passed over, and returns why the first was. */
static const char *opens(uint64_t step, uint64_t count)
{
    static char why[GYRE_TROUBLE_MAX];
    struct gyre_generation *checkpoint;
    struct gyre_generation_report skipped;
    trouble = (struct gyre_trouble){0};
    if (gyre_generation_newest(&checkpoint, folder, &skipped, &trouble))
        fail_msg("%s", trouble.text);
    assert_int_equal(gyre_generation_step(checkpoint), step);
    assert_true(rig_holds(checkpoint, step));
    assert_int_equal(skipped.count, count);
    snprintf(why, sizeof why, "%s", count ? skipped.generation[0].trouble.text : "");
    gyre_generation_report_free(&skipped);
    gyre_generation_close(checkpoint);
    return why;
}

static void opens_old(uint64_t step, const char *words)
{
    const char *why = opens(step, 1);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
}

/* -- what is right ----------------------------------------------------------------------------- */

static void what_is_saved_is_read(void **state)
{
    struct gyre_generation *checkpoint;
    struct gyre_generation_report skipped;
    char hash[GYRE_SHA256_TEXT];
    int64_t whole = 0;
    double real = 0;
    save(120);
    assert_int_equal(gyre_generation_newest(&checkpoint, folder, &skipped, &trouble), 0);
    assert_true(rig_holds(checkpoint, 120));
    assert_false(rig_holds(checkpoint, 121));
    assert_int_equal(skipped.count, 0);
    assert_int_equal(gyre_generation_step(checkpoint), 120);
    assert_int_equal(gyre_generation_world(checkpoint), 4);
    assert_int_equal(gyre_generation_texts(checkpoint), 2);
    assert_string_equal(gyre_generation_text_at(checkpoint, 1)->key, "run \"é\"\n");
    assert_string_equal(gyre_generation_text(checkpoint, "seed"), "120");
    assert_string_equal(gyre_generation_text(checkpoint, "run \"é\"\n"), "");
    assert_null(gyre_generation_text(checkpoint, "sed"));
    assert_int_equal(gyre_generation_get_whole(checkpoint, "sampler.cursor", &whole, NULL), 0);
    assert_int_equal(whole, -120);
    assert_int_equal(gyre_generation_get_real(checkpoint, "scaler.scale", &real, NULL), 0);
    assert_true(real == 65656.5);
    struct rig_state held = rig_state_of(1);
    struct rig_lists lists = rig_lists_of(&held);
    struct gyre_stored_tensor turned[] = {lists.model[2], lists.model[0], lists.model[1]};
    const struct gyre_stored_list model = {turned, RIG_MODEL};
    assert_int_equal(gyre_generation_hash_model(&model, hash, NULL), 0);
    assert_string_equal(hash, gyre_generation_model_hash(checkpoint));
    assert_int_equal(gyre_generation_expect_model(checkpoint, &model, NULL), 0);
    gyre_generation_report_free(&skipped);
    gyre_generation_close(checkpoint);
    gyre_generation_close(NULL);
}

/* Names, types and shapes as a text, and its SHA-256 by another program (coreutils). */
static void the_hash_of_a_model_is_known(void **state)
{
    char hash[GYRE_SHA256_TEXT];
    struct rig_state held = rig_state_of(1);
    struct rig_lists lists = rig_lists_of(&held);
    const struct gyre_stored_list model = {lists.model, RIG_MODEL};
    assert_int_equal(gyre_generation_hash_model(&model, hash, NULL), 0);
    assert_string_equal(hash, "8b2a7d0a5b92313b234386a178c0d0372a97b6711cba022f863a40570cc9b4b5");
}

static void pytorch_is_told_its_format(void **state)
{
    struct gyre_safetensors *file;
    save(1);
    assert_int_equal(gyre_safetensors_open(&file, path_of(1, "model.safetensors"), &trouble), 0);
    assert_string_equal(gyre_safetensors_text(file, "format"), "pt");
    assert_int_equal(gyre_safetensors_count(file), RIG_MODEL);
    gyre_safetensors_close(file);
}

static void two_generations_are_kept(void **state)
{
    for (uint64_t step = 10; step <= 50; step += 10)
        save(step);
    assert_int_equal(rig_count(folder), 2);
    assert_true(there(40) && there(50));
    opens(50, 0);
    assert_int_equal(rig_save_seed(folder, 60, 60, 3, NULL), 0);
    assert_int_equal(rig_count(folder), 3);
    assert_int_equal(rig_save_seed(folder, 70, 70, 0, NULL), 0); /* itself, always */
    assert_int_equal(rig_count(folder), 1);
    opens(70, 0);
}

/* A damaged generation behind the step that is saved is evidence, and none of what is too old. */
static void damaged_later_generations_stay(void **state)
{
    save(100);
    save(140);
    assert_int_equal(truncate(path_of(140, "manifest.json"), 10), 0);
    assert_int_equal(rig_save_seed(folder, 120, 120, 1, &trouble), 0);
    assert_false(there(100));
    assert_true(there(140));
    opens_old(120, "manifest.json");
}

static void steps_are_numbers_not_texts(void **state)
{
    save(99999999);
    save(100000000);
    opens(100000000, 0);
    save(UINT64_MAX);
    opens(UINT64_MAX, 0);
    assert_true(there(100000000));
    assert_false(there(99999999));
}

static void a_step_is_saved_again(void **state)
{
    struct gyre_generation *checkpoint;
    save(10);
    save(20);
    assert_int_equal(rig_save_seed(folder, 20, 77, 2, &trouble), 0);
    assert_int_equal(rig_count(folder), 2);
    assert_int_equal(gyre_generation_newest(&checkpoint, folder, NULL, NULL), 0);
    assert_true(rig_holds(checkpoint, 77));
    gyre_generation_close(checkpoint);
}

/* A reader that has it open goes on while it is replaced and removed. */
static void what_is_open_stays(void **state)
{
    struct gyre_generation *checkpoint;
    save(10);
    assert_int_equal(gyre_generation_newest(&checkpoint, folder, NULL, NULL), 0);
    for (uint64_t step = 20; step <= 40; step += 10)
        save(step);
    assert_false(there(10));
    assert_true(rig_holds(checkpoint, 10));
    gyre_generation_close(checkpoint);
}

/* -- what is damaged --------------------------------------------------------------------------- */

static const char *const files[] = {"model.safetensors", "training.safetensors", "manifest.json"};

static void every_flipped_byte_is_seen(void **state)
{
    static uint8_t bytes[4096];
    char path[GYRE_GENERATION_PATH_MAX];
    save(100);
    save(120);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s", path_of(120, files[i]));
        size_t length = file_room_read(path, bytes, sizeof bytes);
        assert_in_range(length, 100, sizeof bytes - 1);
        for (size_t at = 0; at < length; at++) {
            FILE *file = fopen(path, "r+b");
            fseek(file, (long)at, SEEK_SET);
            fputc(bytes[at] ^ 1 << at % 8, file);
            fclose(file);
            opens_old(100, path);
            file = fopen(path, "wb");
            fwrite(bytes, 1, length, file);
            fclose(file);
        }
    }
    opens(120, 0);
}

static void every_cut_is_seen(void **state)
{
    char path[GYRE_GENERATION_PATH_MAX];
    for (int i = 0; i < 3; i++) {
        struct stat about;
        save(100);
        save(120);
        snprintf(path, sizeof path, "%s", path_of(120, files[i]));
        stat(path, &about);
        assert_int_equal(truncate(path, about.st_size + 1), 0);
        opens_old(100, path);
        for (off_t length = about.st_size - 1; length >= 0; length--) {
            assert_int_equal(truncate(path, length), 0);
            opens_old(100, path);
        }
        unlink(path);
        opens_old(100, "cannot open it: No such file or directory");
    }
    save(120);
    truncate(path_of(120, files[0]), 50);
    opens_old(100, "model.safetensors: 50 bytes, the manifest says");
}

static void what_is_no_folder_is_passed_over(void **state)
{
    save(100);
    FILE *file = fopen(path_of(120, NULL), "wb");
    fclose(file);
    opens_old(100, "cannot open it: Not a directory");
    mkdir(path_of(110, NULL), 0777);
    opens(100, 2);
}

/* -- manifests that lie ------------------------------------------------------------------------ */

static char good[8192]; /* the manifest of step 120, without its last line */

static void forge(const char *from, const char *to)
{
    static char text[8192];
    char hash[GYRE_SHA256_TEXT];
    char *at = strstr(good, from);
    if (!at)
        fail_msg("\"%s\" is not in %s", from, good);
    int length = snprintf(text, sizeof text - 100, "%.*s%s%s", (int)(at - good), good, to,
                          at + strlen(from));
    gyre_sha256_text(text, (size_t)length, hash, NULL);
    FILE *file = fopen(path_of(120, "manifest.json"), "wb");
    fprintf(file, "%s  \"sha256\": \"%s\"\n}\n", text, hash);
    fclose(file);
}

static void read_good(void)
{
    save(100);
    save(120);
    size_t length = file_room_read(path_of(120, "manifest.json"), good, sizeof good);
    *(strstr(good, "  \"sha256\": \"")) = '\0';
    assert_true(strlen(good) + 81 == length);
    forge("120", "120");
    opens(120, 0);
}

static void a_manifest_that_lies_is_seen(void **state)
{
    static const struct {
        const char *from, *to, *words;
    } lies[] = {
        {"\": 1", "\": 2", "format version 2, this Gyre reads 1"},
        {"gyre_checkpoint", "gyre", "is no manifest of a checkpoint"},
        {"{", "[", "is no manifest of a checkpoint"},
        {"120", "121", "says step 121, its folder says 120"},
        {"\"world\": 4", "\"world\": 0", "a world of 0 ranks"},
        {"\"world\": 4", "\"world\": -4", "'-' where a whole number is expected"},
        {"\"world\": 4", "\"world\": 18446744073709551616", "larger than 2^64 - 1"},
        {"\"world\": 4", "\"world\": 4.5", "where a whole number is expected"},
        {"\"world\": 4", "\"world\": 4, \"world\": 4", "\"world\" stands there twice"},
        {"  \"world\": 4,\n", "", "\"world\" is missing"},
        {"\"world\": 4", "\"world\": 4, \"more\": 1", "\"more\" is unknown"},
        {"\"bytes\": ", "\"bytes\": 99999999999", "the manifest says 99999999999"},
        {"\"bytes\": ", "\"bytes\": 1844674407370955", "the manifest says 1844674407370955"},
        {"\"sha256\": \"", "\"sha256\": \"0", "a SHA-256 of 64 digits is expected"},
        {"\"model\": \"", "\"model\": \"G", "a SHA-256 of 64 digits is expected"},
        {"training.safetensors", "../../../etc/passwd", "\"../../../etc/passwd\" is unknown"},
        {"training.safetensors", "\\u001b[2J\\u009b\\n", "\"?[2J???\" is unknown"},
        {"\"texts\": {", "\"texts\": [", "where an object is expected"},
        {"\"seed\": ", "\"seed\": 1", "where a string is expected"},
        {"},\n  \"texts\"", "}\n  \"texts\"", "'\"' where ',' or '}' is expected"},
    };
    read_good();
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        forge(lies[i].from, lies[i].to);
        opens_old(100, lies[i].words);
    }
}

/* Hashes of 64 right digits that are another file's, or another model's. */
static void wrong_hashes_are_seen(void **state)
{
    char from[80], to[80];
    read_good();
    static const char *const before[] = {"\"sha256\": \"", "\"model\": \""},
                             *const words[] = {"model.safetensors: is damaged: its SHA-256 is",
                                               "the tensors of the model make the hash"};
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%.*s", (int)strlen(before[i]) + 1, strstr(good, before[i]));
        snprintf(to, sizeof to, "%s%c", before[i], from[strlen(before[i])] == 'a' ? 'b' : 'a');
        forge(from, to);
        opens_old(100, words[i]);
    }
}

static void an_absurd_manifest_is_not_read(void **state)
{
    save(100);
    save(120);
    truncate(path_of(120, "manifest.json"), (off_t)1 << 40);
    opens_old(100, "has 1099511627776 bytes, at most 16777216 are allowed");
}

/* -- none -------------------------------------------------------------------------------------- */

static void every_reason_is_told_where_none_is_whole(void **state)
{
    struct gyre_generation *checkpoint;
    struct gyre_generation_report report;
    assert_int_equal(gyre_generation_newest(&checkpoint, folder, NULL, &trouble), -ENOENT);
    assert_non_null(strstr(trouble.text, "no checkpoint is there"));
    save(100);
    save(120);
    truncate(path_of(100, "training.safetensors"), 5);
    unlink(path_of(120, "manifest.json"));
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_generation_newest(&checkpoint, folder, &report, &trouble), GYRE_INVALID);
    assert_null(checkpoint);
    assert_non_null(strstr(trouble.text, "none of its 2 checkpoints can be used: "));
    assert_non_null(strstr(trouble.text, "step-00000120/manifest.json: cannot open it"));
    assert_non_null(strstr(trouble.text, "; "));
    assert_non_null(strstr(trouble.text, "step-00000100/training.safetensors: 5 bytes"));
    gyre_generation_report_free(&report);
    save(110); /* damaged ones are no reason to refuse */
    assert_int_equal(gyre_generation_look(folder, &report, NULL), 0);
    assert_int_equal(report.count, 3);
    assert_int_equal(report.generation[0].trouble.status, -ENOENT);
    assert_int_equal(report.generation[1].trouble.status, 0);
    assert_int_equal(report.generation[1].step, 110);
    assert_int_equal(report.generation[1].world, 4);
    assert_int_equal(report.generation[2].trouble.status, GYRE_INVALID);
    gyre_generation_report_free(&report);
}

/* Only whole generations count as kept: the old one stays until there are two. */
static void a_damaged_one_is_not_kept_in_place_of_a_whole_one(void **state)
{
    save(10);
    save(20);
    truncate(path_of(20, "model.safetensors"), 5);
    save(30);
    assert_true(there(10) && there(20) && there(30));
    save(40);
    assert_true(there(30) && there(40));
    assert_int_equal(rig_count(folder), 2);
}

/* -- by any name ------------------------------------------------------------------------------- */

/* The step that `path` opens; 0: it is a file of its own. */
static uint64_t opens_named(const char *path)
{
    struct gyre_generation *checkpoint;
    if (gyre_generation_named(&checkpoint, path, &trouble))
        fail_msg("%s: %s", path, trouble.text);
    uint64_t step = checkpoint ? gyre_generation_step(checkpoint) : 0;
    assert_true(!checkpoint || rig_holds(checkpoint, step));
    gyre_generation_close(checkpoint);
    return step;
}

static void a_generation_opens_by_any_of_its_names(void **state)
{
    struct gyre_generation *checkpoint;
    char other[600], here[600];
    (void)state;
    save(100);
    save(120);
    assert_int_equal(opens_named(folder), 120);
    assert_int_equal(opens_named(path_of(100, NULL)), 100);
    assert_int_equal(opens_named(path_of(100, "model.safetensors")), 100);
    assert_int_equal(opens_named(path_of(100, "training.safetensors")), 0);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(symlink("step-00000100", other), 0);
    assert_int_equal(opens_named(other), 100);
    assert_int_equal(opens_named("/nowhere/model.safetensors"), 0);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(path_of(120, NULL)), 0);
    assert_int_equal(opens_named("model.safetensors"), 120);
    assert_int_equal(chdir(here), 0);
    truncate(path_of(100, "training.safetensors"), 5);
    assert_int_equal(gyre_generation_named(&checkpoint, other, &trouble), GYRE_INVALID);
    assert_null(checkpoint);
    assert_non_null(strstr(trouble.text, "other/training.safetensors: 5 bytes"));
}

/* Saves step 40, behind which step 10 stays and `text` is the best. */
static void save_with_best(const char *text)
{
    const struct gyre_stored_text best = {GYRE_GENERATION_BEST, text};
    struct rig_state state = rig_state_of(40);
    struct rig_lists lists = rig_lists_of(&state);
    const struct gyre_generation_content content = {
        .step = 40,
        .world = 1,
        .part = {{lists.model, RIG_MODEL}, {lists.training, RIG_TRAINING}},
        .text = &best,
        .texts = 1,
        .spared = 10};
    assert_int_equal(gyre_generation_save(folder, &content, 2, &trouble), 0);
}

static void the_best_is_spared_and_used(void **state)
{
    (void)state;
    for (uint64_t step = 10; step <= 30; step += 10)
        assert_int_equal(rig_save_seed(folder, step, step, 3, NULL), 0);
    save_with_best("10");
    assert_true(there(10) && !there(20) && there(30) && there(40));
    assert_int_equal(opens_named(folder), 10);
    assert_int_equal(opens_named(path_of(40, NULL)), 40);
    assert_int_equal(truncate(path_of(10, "manifest.json"), 5), 0);
    assert_int_equal(opens_named(folder), 40);
    save_with_best("40");
    assert_int_equal(opens_named(folder), 40);
    save_with_best("none");
    assert_int_equal(opens_named(folder), 40);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void refused(const char *words)
{
    assert_int_equal(trouble.status, GYRE_INVALID);
    if (!strstr(trouble.text, words))
        fail_msg("\"%s\" is not in: %s", words, trouble.text);
    trouble = (struct gyre_trouble){0};
}

static void another_model_is_refused(void **state)
{
    struct gyre_generation *checkpoint;
    struct rig_state held = rig_state_of(10);
    static const uint64_t turned[] = {3, 2}, longer[] = {2, 3, 1};
    save(10);
    assert_int_equal(gyre_generation_newest(&checkpoint, folder, NULL, NULL), 0);
    for (int i = 0; i < 6; i++) {
        struct rig_lists lists = rig_lists_of(&held);
        struct gyre_stored_list model = {lists.model, RIG_MODEL};
        static const char *const words[] = {
            "has no tensor \"2.weight\" in model.safetensors; expected is F32 [2,3]",
            "of model.safetensors: the checkpoint of step 10 has F32 [2,3], expected is F32 [3,2]",
            "has F32 [2,3], expected is F32 [2,3,1]",
            "has F32 [2,3], expected is BF16 [2,3]",
            "has I64 [], expected is F64 []",
            "has tensor \"1.num_batches_tracked\", I64 [], which this model has not",
        };
        lists.model[0].name = i == 0 ? "2.weight" : "0.weight";
        lists.model[0].shape = i == 1 ? turned : i == 2 ? longer : lists.model[0].shape;
        lists.model[0].dims = i == 2 ? 3 : 2;
        lists.model[0].type = i == 3 ? GYRE_STORED_BF16 : GYRE_STORED_F32;
        lists.model[2].type = i == 4 ? GYRE_STORED_F64 : GYRE_STORED_I64;
        model.count -= i == 5;
        assert_int_equal(gyre_generation_expect_model(checkpoint, &model, &trouble), GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "another model: "));
        refused(words[i]);
    }
    int64_t whole;
    assert_int_equal(gyre_generation_get_whole(checkpoint, "scaler.scale", &whole, &trouble),
                     GYRE_INVALID);
    refused("has F64 [], expected is I64 []");
    gyre_generation_close(checkpoint);
}

static void a_later_step_is_not_hidden(void **state)
{
    save(200);
    assert_int_equal(rig_save(folder, 100, &trouble), GYRE_INVALID);
    refused("holds step 200 already, which resuming would take");
    assert_int_equal(rig_count(folder), 1);
    truncate(path_of(200, "model.safetensors"), 5);
    save(100);
    opens(100, 1);
}

static void what_cannot_be_saved_leaves_nothing(void **state)
{
    struct rig_state held = rig_state_of(10);
    struct rig_lists lists = rig_lists_of(&held);
    struct gyre_stored_text twice[] = {{"a", "1"}, {"a", "2"}}, latin[] = {{"a", "\xe9"}};
    struct gyre_generation_content content = {
        .step = 30, .world = 1, .part = {{lists.model, RIG_MODEL}, {lists.training, RIG_TRAINING}}};
    save(10);
    content.text = twice, content.texts = 2;
    assert_int_equal(gyre_generation_save(folder, &content, 2, &trouble), GYRE_INVALID);
    refused("manifest.json: text \"a\": is given twice");
    content.text = latin, content.texts = 1;
    assert_int_equal(gyre_generation_save(folder, &content, 2, &trouble), GYRE_INVALID);
    refused("text \"a\": is not UTF-8");
    content.texts = 0, content.world = 0;
    assert_int_equal(gyre_generation_save(folder, &content, 2, &trouble), GYRE_INVALID);
    refused("a checkpoint of 0 ranks");
    content.world = 1, lists.training[1].name = lists.training[0].name;
    assert_int_equal(gyre_generation_save(folder, &content, 2, &trouble), GYRE_INVALID);
    refused("the checkpoint of step 30, 112 bytes of tensors, is not saved: ");
    assert_int_equal(rig_count(folder), 1);
    assert_int_equal(rig_save("/proc/no/such", 1, &trouble), -ENOENT);
    trouble = (struct gyre_trouble){0};
    assert_int_equal(rig_save(path_of(10, "manifest.json"), 1, &trouble), -ENOTDIR);
}

/* -- what is not ours -------------------------------------------------------------------------- */

static bool touch_in(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    return file && !fclose(file);
}

static void only_rests_are_removed(void **state)
{
    static const char *const ours[] = {"step-00000007.part-0123abcd",
                                       "step-123456789.part-ffffffff"},
                             *const theirs[] = {"step-00000007.part-0123abcde",
                                                "step-00000007.part-0123ABCD",
                                                "step-7.part-0123abcd",
                                                "step-000000007",
                                                "step-",
                                                "xstep-00000007",
                                                "step-99999999999999999999",
                                                "step-00000007.bak"};
    char path[512];
    save(10);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, ours[i]);
        mkdir(path, 0777);
        snprintf(path, sizeof path, "%s/model.safetensors.%08x", ours[i], i);
        assert_true(touch_in(path));
    }
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, theirs[i]);
        mkdir(path, 0777);
    }
    assert_true(touch_in("notes.txt"));
    mkdir(path_of(5, NULL), 0777);
    assert_true(touch_in("step-00000005/manifest.json"));
    assert_true(touch_in("step-00000005/model.safetensors"));
    assert_true(touch_in("step-00000005/notes.txt"));
    mkdir(path_of(10, "../elsewhere"), 0777);
    assert_true(touch_in("elsewhere/model.safetensors"));
    assert_int_equal(symlink("elsewhere", path_of(4, NULL)), 0);
    save(20);
    save(30);
    assert_int_equal(rig_count(folder), 2 + 8 + 1 + 2 + 1);
    snprintf(path, sizeof path, "%s/step-00000005", folder);
    assert_int_equal(rig_count(path), 3);
    assert_int_equal(access(path_of(30, "../elsewhere/model.safetensors"), F_OK), 0);
    opens(30, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {
        TEST(what_is_saved_is_read),
        TEST(the_hash_of_a_model_is_known),
        TEST(pytorch_is_told_its_format),
        TEST(two_generations_are_kept),
        TEST(damaged_later_generations_stay),
        TEST(steps_are_numbers_not_texts),
        TEST(a_step_is_saved_again),
        TEST(what_is_open_stays),
        TEST(every_flipped_byte_is_seen),
        TEST(every_cut_is_seen),
        TEST(what_is_no_folder_is_passed_over),
        TEST(a_manifest_that_lies_is_seen),
        TEST(wrong_hashes_are_seen),
        TEST(an_absurd_manifest_is_not_read),
        TEST(every_reason_is_told_where_none_is_whole),
        TEST(a_damaged_one_is_not_kept_in_place_of_a_whole_one),
        TEST(a_generation_opens_by_any_of_its_names),
        TEST(the_best_is_spared_and_used),
        TEST(another_model_is_refused),
        TEST(a_later_step_is_not_hidden),
        TEST(what_cannot_be_saved_leaves_nothing),
        TEST(only_rests_are_removed),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
