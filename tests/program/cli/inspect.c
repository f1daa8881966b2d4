/* gyre inspect as its users type it: the tables line for line, and exit code 2 with one sentence
 * for what cannot be used. */
#include "rig/checkpoint_rig.h"
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <math.h>
#include <unistd.h>

static struct rig rig;
static char folder[256], model[320], odd[256];

static int make(void **state)
{
    static const float numbers[] = {1, NAN, -INFINITY, -2};
    static const uint16_t halves[] = {0x3c00, 0x7c00, 0x8001, 0x4000}; /* 1, inf, -2^-24, 2 */
    static const uint8_t bytes[] = {1, 2, 3, 4};
    static const uint64_t four[] = {4}, none[] = {0, 3};
    static const struct gyre_stored_tensor tensors[] = {
        {"odd", GYRE_STORED_F32, 1, four, numbers, 0},
        {"half", GYRE_STORED_F16, 1, four, halves, 0},
        {"bfloat", GYRE_STORED_BF16, 1, four, halves, 0},
        {"empty", GYRE_STORED_F32, 2, none, NULL, 0},
        {"a \"b\"\n", GYRE_STORED_U8, 1, four, bytes, 0},
    };
    if (file_room_open(state))
        return -1;
    snprintf(folder, sizeof folder, "%s/run", file_room);
    snprintf(model, sizeof model, "%s/step-00000020/model.safetensors", folder);
    snprintf(odd, sizeof odd, "%s/odd.safetensors", file_room);
    return rig_save(folder, 10, NULL) || rig_save(folder, 20, NULL) ||
           gyre_safetensors_write(odd, tensors, 5, NULL, 0, NULL);
}

static void inspect(const char *path, const char *flag, int code)
{
    rig_run(&rig, NULL, (const char *const[]){"inspect", path, flag, NULL});
    if (rig.code != code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

static void says(const char *line)
{
    if (rig_count_lines(rig.out_text, line) != 1)
        fail_msg("no line \"%s\" in:\n%s", line, rig.out_text);
}

/* -- files ------------------------------------------------------------------------------------- */

static void tensors_are_listed(void **state)
{
    inspect(model, NULL, 0);
    says(
        "tensor                type       shape                   bytes           min           max"
        "          mean      nan      inf");
    says(
        "0.weight              F32        [2,3]                      24            20          20.5"
        "         20.25        0        0");
    says("1.num_batches_tracked I64        []                          8 21990232555520"
         " 21990232555520             -        -        -");
    says("3 tensors, 9 numbers, 40 bytes");
    says("format: pt");
    rig_end(&rig);
    inspect(odd, NULL, 0);
    says("odd    F32        [4]                        16            -2             1          -0.5"
         "        1        1");
    says("half   F16        [4]                         8  -5.96046e-08             2             1"
         "        0        1");
    says("empty  F32        [0,3]                       0             -             -             -"
         "        0        0");
    says("a \"b\"? U8         [4]                         4             -             -            "
         " -"
         "        -        -");
    rig_end(&rig);
}

static void values_may_be_left_out(void **state)
{
    inspect(model, "--no-values", 0);
    says("tensor                type       shape                   bytes");
    says("0.weight              F32        [2,3]                      24");
    rig_end(&rig);
}

static void tensors_are_told_in_json(void **state)
{
    inspect(odd, "--json", 0);
    says("  {\"name\":\"odd\",\"type\":\"F32\",\"shape\":[4],\"bytes\":16,\"min\":-2,\"max\":1,"
         "\"mean\":-0.5,\"nan\":1,\"inf\":1},");
    says("  {\"name\":\"empty\",\"type\":\"F32\",\"shape\":[0,3],\"bytes\":0,\"min\":null,"
         "\"max\":null,\"mean\":null,\"nan\":0,\"inf\":0},");
    says("  {\"name\":\"a \\\"b\\\"\\n\",\"type\":\"U8\",\"shape\":[4],\"bytes\":4,\"min\":null,"
         "\"max\":null,\"mean\":null}]}");
    rig_end(&rig);
    inspect(model, "--json", 0);
    says(" \"metadata\":{\"format\":\"pt\"},");
    says("  {\"name\":\"0.weight\",\"type\":\"F32\",\"shape\":[2,3],\"bytes\":24,\"min\":20,"
         "\"max\":20.5,\"mean\":20.25,\"nan\":0,\"inf\":0}]}");
    rig_end(&rig);
}

/* Names and texts from a file: as a table, as JSON, and as a reason. */
static void nothing_reaches_a_terminal_as_a_command(void **state)
{
    static const uint64_t one[] = {1};
    static const struct gyre_stored_tensor tensors[] = {{"esc\x1b[2J\xc2\x9b"
                                                         "2J\x7f",
                                                         GYRE_STORED_U8, 1, one, "x", 0}};
    static const struct gyre_stored_text texts[] = {{"key\x1b", "\xc2\x90\nforged"}};
    static const char *const flags[] = {NULL, "--json"};
    char path[256];
    snprintf(path, sizeof path, "%s/escapes.safetensors", file_room);
    assert_int_equal(gyre_safetensors_write(path, tensors, 1, texts, 1, NULL), 0);
    for (int i = 0; i < 2; i++) {
        inspect(path, flags[i], 0);
        for (const char *at = rig.out_text; *at; at++)
            if ((unsigned char)*at < ' ' ? *at != '\n' : *at == 0x7f || *at == '\xc2')
                fail_msg("byte %#x in:\n%s", (unsigned char)*at, rig.out_text);
        assert_non_null(strstr(rig.out_text, i ? "esc\\u001b[2J\\u009b2J\\u007f" : "esc?[2J??2J?"));
        assert_non_null(strstr(rig.out_text, i ? "\\u0090\\nforged" : "key?: ???forged"));
        rig_end(&rig);
    }
    assert_non_null(file_room_make("escapes.safetensors",
                                   "\x20\0\0\0\0\0\0\0{\"\\u001b\\u009b\\n\":{}}            ", 40));
    inspect(path, NULL, 2);
    assert_non_null(strstr(rig.err_text, "tensor \"????\": byte 20 of"));
    rig_end(&rig);
}

/* -- checkpoints ------------------------------------------------------------------------------- */

static void generations_are_listed(void **state)
{
    inspect(folder, NULL, 0);
    says("        step  state       ranks          bytes");
    says("          20  whole           4            704");
    says("          10  whole           4            704");
    says("newest whole: step 20, model 8b2a7d0a5b92313b");
    says("seed: 20");
    rig_end(&rig);
    inspect(folder, "--json", 0);
    says("  {\"step\":20,\"whole\":true,\"world\":4,\"bytes\":704},");
    says("  {\"step\":10,\"whole\":true,\"world\":4,\"bytes\":704}],");
    says(" \"texts\":{\"seed\":\"20\",\"run \\\"é\\\"\\n\":\"\"}}");
    rig_end(&rig);
}

/* The last test: it damages what the others read. */
static void what_is_damaged_is_told(void **state)
{
    char line[1024];
    assert_int_equal(truncate(model, 20), 0);
    inspect(folder, NULL, 0);
    snprintf(line, sizeof line,
             "          20  damaged  %s: 20 bytes, the manifest says 280: it is cut short", model);
    says(line);
    says("          10  whole           4            704");
    says("newest whole: step 10, model 8b2a7d0a5b92313b");
    rig_end(&rig);
    inspect(folder, "--json", 0);
    snprintf(line, sizeof line,
             "  {\"step\":20,\"whole\":false,\"why\":\"%s: 20 bytes, the manifest says 280: it is "
             "cut short\"},",
             model);
    says(line);
    rig_end(&rig);
    snprintf(line, sizeof line, "%s/step-00000010/manifest.json", folder);
    assert_int_equal(unlink(line), 0);
    inspect(folder, NULL, 2);
    rig_expect(&rig, 2, "none of its 2 checkpoints can be used: ");
    rig_end(&rig);
    inspect(folder, "--json", 2);
    says(" \"texts\":{}}");
    rig_end(&rig);
}

static void what_is_refused_gets_one_sentence(void **state)
{
    static const char *const wrongs[][4] = {
        {"/bin/sh", NULL, "is it a safetensors file?"},
        {"/dev/null", NULL, "is not a regular file"},
        {odd, "--jsno", "did you mean '--json'?"},
        {odd, "more", "unexpected word 'more'"},
        {NULL, NULL, "which file?"},
    };
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        inspect(wrongs[i][0], wrongs[i][1], 2);
        rig_expect(&rig, 2, wrongs[i][2]);
        assert_string_equal(rig.out_text, "");
        rig_end(&rig);
    }
    inspect("/no/such", NULL, 1);
    rig_expect(&rig, 1, "gyre inspect: /no/such: cannot open it: No such file or directory");
    rig_end(&rig);
    inspect(file_room, NULL, 1);
    rig_expect(&rig, 1, "no checkpoint is there: no folder step-… is in it");
    rig_end(&rig);
    inspect("--help", NULL, 0);
    says("usage: gyre inspect [FLAGS] FILE|DIR");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_listed),
        cmocka_unit_test(values_may_be_left_out),
        cmocka_unit_test(tensors_are_told_in_json),
        cmocka_unit_test(nothing_reaches_a_terminal_as_a_command),
        cmocka_unit_test(generations_are_listed),
        cmocka_unit_test(what_is_refused_gets_one_sentence),
        cmocka_unit_test(what_is_damaged_is_told),
    };
    return cmocka_run_group_tests(tests, make, file_room_close);
}
