/* gyre check as its users type it: every schedule that `gyre show --json` prints is proved, a
 * planted defect is named by rank, round and step, and nonsense by line and column. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rig rig;
static char path[512];

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* The exit code of `gyre check` on this text, and a part of its last line. */
static void expect_checked(const char *text, int code, const char *says)
{
    write_file(text);
    rig_run(&rig, NULL, (const char *const[]){"check", path, NULL});
    rig_expect(&rig, code, says);
    rig_end(&rig);
}

/* -- what is right ----------------------------------------------------------------------------- */

static void a_printed_schedule_is_proved(void **state)
{
    static const char *const prints[][10] = {
        {"all_reduce", "-a", "ring", "-n", "5"},
        {"all_reduce", "-a", "direct", "-n", "4", "-c", "7"},
        {"all_reduce", "-a", "tree", "-n", "1"},
        {"all_reduce", "-a", "knomial", "-n", "6"},
        {"all_reduce", "--nodes", "3+2", "-a", "two_level"},
        {"all_reduce", "-c", "0"},
        {"broadcast", "-a", "tree", "--root", "2"},
        {"reduce", "-a", "ring", "--root", "1"},
        {"all_gather", "--counts", "3,0,5"},
        {"reduce_scatter", "-a", "ring"},
        {"all_to_all", "-a", "bruck", "-n", "5"},
        {"all_to_all", "-n", "3", "--in-place"},
        {"gather", "--counts", "3,0,5", "--root", "1"},
        {"scatter", "--counts", "3,0,5"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof prints / sizeof *prints; i++) {
        const char *words[13] = {"show", "--json"};
        memcpy(words + 2, prints[i], sizeof prints[i]);
        rig_run(&rig, NULL, words);
        assert_int_equal(rig.code, 0);
        write_file(rig.out_text);
        rig_end(&rig);
        rig_run(&rig, NULL, (const char *const[]){"check", path, NULL});
        rig_expect(&rig, 0, "");
        assert_true(rig_has(rig_last_line(rig.out_text), "proved: "));
        rig_end(&rig);
    }
}

/* -- defects ----------------------------------------------------------------------------------- */

#define BEGIN                                                                                      \
    "{\"operation\":\"all_reduce\", \"algorithm\":\"mine\", \"n\":2, \"count\":1,\n"               \
    " \"ranks\":[\n"
#define SWAP(peer)                                                                                 \
    "  [{\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":4,\"peer\":" peer "},\n"   \
    "   {\"kind\":\"RECV\",\"buffer\":\"SCRATCH\",\"offset\":0,\"length\":4,\"peer\":" peer        \
    "}],\n"
#define ADD(first, second, final)                                                                  \
    "  [{\"kind\":\"REDUCE\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":4,\"final\":" final     \
    ",\n"                                                                                          \
    "    \"sources\":[{\"buffer\":\"" first "\",\"offset\":0},{\"buffer\":\"" second               \
    "\",\"offset\":0}]}]"
#define RANK(number, steps) " {\"rank\":" number ",\"rounds\":[\n" steps "]}"

static void a_schedule_by_hand(void **state)
{
    (void)state;
    expect_checked(BEGIN RANK("0", SWAP("1") ADD("INPUT", "SCRATCH", "true")) "," RANK(
                       "1", SWAP("0") ADD("SCRATCH", "INPUT", "true")) "]}",
                   0, "");
    assert_true(rig_has(rig.out_text, "all_reduce by mine: 2 ranks, 1 element of 4 bytes\n"));
}

static void a_defect_is_named(void **state)
{
    (void)state;
    expect_checked(BEGIN RANK("0", SWAP("1") ADD("INPUT", "SCRATCH", "true")) "," RANK(
                       "1", SWAP("0") ADD("INPUT", "INPUT", "true")) "]}",
                   1,
                   "rank 1, round 1, step 0 (REDUCE 4 bytes, OUTPUT + 0): rank 1 would be in "
                   "the sum twice");
    expect_checked(BEGIN RANK("0", SWAP("1") ADD("INPUT", "SCRATCH", "true")) "," RANK(
                       "1", SWAP("1") ADD("SCRATCH", "INPUT", "true")) "]}",
                   1, "rank 1, round 0, step 0 (SEND 4 bytes, INPUT + 0): its peer is rank 1");
    expect_checked(BEGIN RANK("0", SWAP("1") ADD("INPUT", "SCRATCH", "false")) "," RANK(
                       "1", SWAP("0") ADD("SCRATCH", "INPUT", "true")) "]}",
                   1, "rank 0");
}

/* The page plays up to the defect, and the command fails all the same. */
static void a_defect_has_a_page(void **state)
{
    char page[600], *text = calloc(1, 1 << 18);
    (void)state;
    assert_non_null(text);
    snprintf(page, sizeof page, "%s.html", path);
    write_file(BEGIN RANK("0", SWAP("1") ADD("INPUT", "SCRATCH", "true")) "," RANK(
        "1", SWAP("0") ADD("INPUT", "INPUT", "true")) "]}");
    rig_run(&rig, NULL, (const char *const[]){"check", "--html", page, path, NULL});
    rig_expect(&rig, 1, "rank 1 would be in the sum twice");
    rig_end(&rig);
    FILE *file = fopen(page, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    assert_true(rig_has(text, "\"defect\":\"mine all_reduce"));
    free(text);
    assert_int_equal(remove(page), 0);
}

/* -- nonsense ---------------------------------------------------------------------------------- */

struct nonsense {
    const char *text, *says;
};

#define HEAD       "{\"operation\":\"all_reduce\",\"n\":1,\"count\":1,"
#define STEP(step) HEAD "\n\"ranks\":[{\"rank\":0,\"rounds\":[[{" step "}]]}]}"

static const struct nonsense nonsenses[] = {
    {"", "line 1, column 1: it ends where an object is expected"},
    {"[]", "line 1, column 1: '[' where an object is expected"},
    {"{\n \"operation\": \"all_redcue\"}",
     "line 2, column 15: operation \"all_redcue\"; did you mean \"all_reduce\"?"},
    {"{\"operation\":\"all_reduce\",\n\"cuont\":1}",
     "line 2, column 1: a schedule has no \"cuont\"; did you mean \"count\"?"},
    {"{\"count\":1,\n \"count\":2}", "line 2, column 2: a schedule has \"count\" twice"},
    {"{\"operation\":\"all_reduce\"}", "line 1, column 1: a schedule lacks \"n\""},
    {"{\"n\":0}", "line 1, column 6: a schedule has ranks"},
    {"{\"n\":2000}", "line 1, column 6: 2000 is more than 1024"},
    {"{\"n\":-1}", "line 1, column 6: '-' where a whole number is expected"},
    {"{\"element_bytes\":0}", "column 18: an element has bytes"},
    {"{\"algorithm\":\"<b>\"}", "a name of 1 to 40 letters"},
    {"{\"algorithm\":\"\"}", "a name of 1 to 40 letters"},
    {HEAD "\"ranks\":[]}", "line 1, column 1: \"n\" is 1, but \"ranks\" has 0: all ranks"},
    {HEAD "\"ranks\":[{\"rank\":1}]}",
     "rank 1 where rank 0 is expected: all ranks, in their order"},
    {HEAD "\"ranks\":[{\"rank\":0}]}", "a rank lacks \"rounds\""},
    {HEAD "\"root\":1,\"ranks\":[{\"rank\":0,\"rounds\":[]}]}",
     "all_reduce of 1 ranks has no such"},
    {HEAD "\"in_place\":1,\"ranks\":[]}", "true or false is expected"},
    {HEAD "\"in_place\":true,\"ranks\":[{\"rank\":0,\"rounds\":[]}]}", "is for all_to_all"},
    {HEAD "\"counts\":[1],\"ranks\":[{\"rank\":0,\"rounds\":[]}]}",
     "for each of n ranks of an all_"},
    {HEAD "\"ranks\":[{\"rank\":0,\"rounds\":[]}]} x", "'x' where the end is expected"},
    {STEP("\"kind\":\"SNED\""), "line 2, column 39: kind \"SNED\"; did you mean \"SEND\"?"},
    {STEP("\"kind\":\"COPY\",\"buffer\":\"OUT\""), "buffer \"OUT\""},
    {STEP("\"kind\":\"COPY\""), "line 2, column 31: a step lacks \"buffer\""},
    {STEP("\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":4"),
     "this SEND lacks \"peer\""},
    {STEP("\"kind\":\"COPY\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":4,\"peer\":0"),
     "a COPY has no \"peer\""},
    {STEP("\"kind\":\"COPY\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":4"),
     "this COPY lacks \"sources\""},
    {STEP("\"kind\":\"COPY\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":4,\"sources\":["
          "{\"buffer\":\"INPUT\",\"offset\":0},{\"buffer\":\"INPUT\",\"offset\":0}]"),
     "a COPY has one source, not 2"},
    {STEP(
         "\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":4,\"peer\":0,\"sources\":["
         "]"),
     "a SEND has no \"sources\""},
    {STEP("\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":4,\"peer\":0,"
          "\"final\":true"),
     "a SEND has no \"final\""},
    {STEP("\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":18446744073709551616"),
     "a number is larger than 2^64 - 1"},
    {STEP("\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":18446744073709551615"),
     "18446744073709551615 is more than 1099511627776"},
};

static void nonsense_has_a_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nonsenses / sizeof *nonsenses; i++)
        expect_checked(nonsenses[i].text, 2, nonsenses[i].says);
}

static void words(void **state)
{
    (void)state;
    rig_run(&rig, NULL, (const char *const[]){"check", NULL});
    rig_expect(&rig, 2, "which file? `gyre show all_reduce --json` prints its form");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"check", "a", "b", NULL});
    rig_expect(&rig, 2, "unexpected word 'b'; one file is expected");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"check", "/nowhere/file", NULL});
    rig_expect(&rig, 1, "/nowhere/file");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"check", "--help", NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "usage: gyre check FILE [FLAGS]"));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_printed_schedule_is_proved),
        cmocka_unit_test(a_schedule_by_hand),
        cmocka_unit_test(a_defect_is_named),
        cmocka_unit_test(a_defect_has_a_page),
        cmocka_unit_test(nonsense_has_a_place),
        cmocka_unit_test(words),
    };
    snprintf(path, sizeof path, "%s/schedule.json", rig_folder());
    int failed = cmocka_run_group_tests_name("gyre check", tests, NULL, NULL);
    remove(path);
    return failed;
}
