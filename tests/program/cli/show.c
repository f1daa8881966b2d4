/* gyre show as its users type it: one sentence for every wrong word, and a play that ends right. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rig rig;

struct wrong {
    const char *words[8]; /* behind "show" */
    const char *says;
};

static const struct wrong wrongs[] = {
    {{NULL}, "which operation? `gyre show all_reduce`, broadcast, reduce, all_gather"},
    {{"all_redcue"}, "did you mean \"all_reduce\"?"},
    {{"all_reduce", "--algo", "rign"}, "did you mean \"ring\"?"},
    {{"all_reduce", "--aglo", "ring"}, "did you mean '--algo'?"},
    {{"all_reduce", "-n", "0"}, "--ranks is \"0\": expected a whole number from 1 to 1048576"},
    {{"all_reduce", "-n", "five"}, "--ranks is \"five\""},
    {{"all_reduce", "--nodes", "4,2"}, "--nodes 4,2: it should be the ranks of each node"},
    {{"all_reduce", "-n", "5", "--nodes", "4+2"}, "the nodes have 6 ranks"},
    {{"all_reduce", "--rank", "4"}, "--rank is \"4\": expected a whole number from 0 to 3"},
    {{"all_reduce", "--root", "1"}, "--root 1: all_reduce has no root"},
    {{"broadcast", "-n", "3", "--root", "3"}, "--root is \"3\": expected a whole number from 0 to"},
    {{"all_reduce", "--count", "many"}, "--count is \"many\""},
    {{"all_reduce", "--count", "8192G"}, "--count 8192G: 8796093022208 elements of 4 bytes"},
    {{"all_reduce", "--type-bytes", "0"}, "--type-bytes is \"0\""},
    {{"all_reduce", "--run", "--json"}, "give --run or --json"},
    {{"all_reduce", "--run", "-c", "65"}, "at most 64 of each, not 65 of 4"},
    {{"all_reduce", "--check", "-c", "4"},
     "--check proves every root and count: leave out --count"},
    {{"all_reduce", "--check", "-n", "65"}, "--check proves at most 64 ranks, not 65"},
    {{"all_reduce", "--html", "x", "--json"}, "--html plays all ranks on a page: leave out --json"},
    {{"all_reduce", "--html", "x", "--rank", "1"}, "leave out --rank"},
    {{"all_reduce", "--html", "x", "--check"}, "leave out --html"},
    {{"all_reduce", "--html", "x", "-n", "65"}, "--html draws at most 64 ranks, not 65"},
    {{"all_reduce", "--html", "-", "--beside", "rign"}, "--beside is \"rign\""},
    {{"gather", "--html", "-", "--beside", "ring"}, "--beside ring does not build gather"},
    {{"all_reduce", "--beside", "ring"}, "so it goes with --html"},
    {{"all_reduce", "--in-place"}, "it goes with --run"},
    {{"all_gather", "--run", "-n", "9", "-c", "8"}, "at most 64 of each, not 72 of 9"},
    {{"gather", "--algo", "ring"}, "--algo ring does not build gather"},
    {{"all_to_all", "--counts", "1,2"}, "for all_gather, gather or scatter"},
    {{"all_gather", "--counts", "1,2", "-n", "2"}, "without --count and --ranks"},
    {{"all_gather", "--counts", "1,,2"}, "--counts is \"\""},
    {{"all_gather", "--counts", "1,x"}, "--counts is \"x\""},
    {{"all_gather", "--counts", "1,2,"}, "--counts is \"\""},
    {{"all_gather", "--counts", "9000G"}, "block 0 is too long"},
    {{"all_gather", "--counts", "1,2,3", "--nodes", "2+2"}, "the nodes have 4 ranks, not 3"},
    {{"all_reduce", "--nodes", "3+"}, "it should be the ranks of each node"},
    {{"all_reduce", "broadcast"}, "unexpected word 'broadcast'"},
    {{"choices", "-n", "1"}, "--ranks is \"1\": expected a whole number from 2"},
    {{"choices", "--op", "all_redcue"}, "did you mean \"all_reduce\"?"},
    {{"choices", "--nodes", "4x"}, "--nodes"},
    {{"choices", "-n", "5", "--nodes", "2x2"}, "--ranks 5 and --nodes 2x2 differ"},
    {{"choices", "-b", "2M", "-e", "1M"}, "expected 1 to 1024G, the smaller first"},
    {{"choices", "-t", "smh"}, "did you mean \"shm\"?"},
    {{"choices", "--type", "f23"}, "did you mean \"f32\"?"},
    {{"choices", "--type", "f16", "--type-bytes", "4"}, "--type f16 and --type-bytes 4 differ"},
    {{"choices", "more"}, "unexpected word 'more'"},
    {{"env", "more"}, "unexpected word 'more'"},
    {{"sampler", "-n", "0"}, "--samples is \"0\": expected a whole number from 1 to 1000000000"},
    {{"sampler", "--world", "0"}, "--world is \"0\": expected a whole number from 1 to 4096"},
    {{"sampler", "--shares", "4,0"}, "the share of rank 1 is 0: shares are positive and finite"},
    {{"sampler", "--shares", "4,2,"}, "--shares is \"4,2,\": expected a weight per rank, as 4,2"},
    {{"sampler", "--shares", "4,2", "-w3"}, "--shares has 2 weights for 3 ranks"},
    {{"sampler", "--shares", "1,1", "--drop-last"}, "--drop-last and --shares contradict"},
    {{"sampler", "--cursor", "11"}, "cursor 11 of epoch 0 is beyond its 10 samples"},
    {{"sampler", "more"}, "unexpected word 'more'"},
};

static void a_wrong_word_gets_one_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const char *words[10] = {"show"};
        memcpy(words + 1, wrongs[i].words, sizeof wrongs[i].words);
        rig_run(&rig, NULL, words);
        rig_expect(&rig, 2, wrongs[i].says);
        assert_string_equal(rig.out_text, "");
        assert_ptr_equal(strchr(rig.err_text, '\n'), rig.err_text + rig.err_length - 1);
        rig_end(&rig);
    }
}

static void expect_shown(const char *const words[], const char *part, const char *last_line)
{
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_string_equal(rig.err_text, "");
    assert_true(rig_has(rig.out_text, part));
    assert_true(rig_has(rig_last_line(rig.out_text), last_line));
    rig_end(&rig);
}

static void tables_and_json(void **state)
{
    (void)state;
    expect_shown((const char *const[]){"show", "all_reduce", "--algo", "ring", "-n", "5", NULL},
                 "\nrank 4: sends 128 bytes, scratch 32 bytes\n",
                 "SEND    OUTPUT  [16, 32)  -> rank 0");
    expect_shown((const char *const[]){"show", "-n3", "--algo=tree", "all-reduce", "-r", "1", NULL},
                 "\nrank 1:", "round 5");
    expect_shown((const char *const[]){"show", "broadcast", "--json", "-n", "2", NULL},
                 "\"operation\":\"broadcast\"", "]]}]}");
    expect_shown((const char *const[]){"show", "all_gather_v", "--json", "--counts", "3,0,5", NULL},
                 "\"count\":5,\"element_bytes\":4,\"counts\":[3,0,5],", "]]}]}");
    expect_shown((const char *const[]){"show", "all_to_all", "-n", "3", "--in-place", NULL},
                 "blocks of 4 elements of 4 bytes in place\n",
                 "SEND    SCRATCH [16, 32)  -> rank 0");
    expect_shown((const char *const[]){"show", "all_reduce", "--nodes", "2+1", NULL},
                 "3 ranks, 12 elements of 4 bytes, on 2 nodes", "rank");
    expect_shown((const char *const[]){"show", "--help", NULL}, "\n  ring ", "gyre show");
}

static void every_algorithm_plays_to_the_end(void **state)
{
    static const char *const algorithms[] = {"ring", "direct", "tree"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *const *name = &algorithms[i];
        expect_shown(
            (const char *const[]){"show", "all_reduce", "--run", "-n", "5", "-a", *name, NULL},
            "\nafter round 1", "every rank holds the sums");
        expect_shown((const char *const[]){"show", "all_reduce", "--run", "--in-place",
                                           "--type-bytes", "4096", "-a", *name, NULL},
                     "\nafter round 2", "every rank holds the sums");
        expect_shown(
            (const char *const[]){"show", "broadcast", "--run", "--root", "2", "-a", *name, NULL},
            "300", "every rank holds the root's data");
    }
}

/* A ring of 4 ranks has 6 exchanges in 9 rounds. */
static void a_play_counts_exchanges(void **state)
{
    (void)state;
    expect_shown((const char *const[]){"show", "all_reduce", "--run", "-a", "ring", NULL},
                 "\nafter round 1, no messages\n", "every rank holds the sums");
    expect_shown((const char *const[]){"show", "all_reduce", "--run", "-a", "ring", NULL},
                 "\nafter round 2, exchange 2 of 6: reduce-scatter, step 2 of 3\n",
                 "every rank holds the sums");
    expect_shown((const char *const[]){"show", "all_reduce", "--run", "-a", "ring", NULL},
                 "\nafter round 8, exchange 6 of 6: all-gather, step 3 of 3\n",
                 "every rank holds the sums");
    expect_shown((const char *const[]){"show", "all_reduce", "--run", "-a", "tree", NULL},
                 ": broadcast, step 1 of 2\n", "every rank holds the sums");
    expect_shown((const char *const[]){"show", "all_reduce", "--run", "-a", "doubling", NULL},
                 ", exchange 2 of 2\n", "every rank holds the sums");
    expect_shown((const char *const[]){"show", "broadcast", "--run", "-a", "ring", NULL},
                 ", exchange 1 of 3\n", "every rank holds");
}

static void schedules_are_proved(void **state)
{
    (void)state;
    expect_shown((const char *const[]){"show", "all_reduce", "--check", NULL},
                 "ring              96 schedules of 1 to 16 ranks: proved\n", "proved");
    expect_shown((const char *const[]){"show", "broadcast", "--check", "-a", "tree", "-n3", NULL},
                 "tree              18 schedules of 3 ranks: proved\n", "proved");
    expect_shown((const char *const[]){"show", "all_reduce", "--check", "--nodes", "3+2", NULL},
                 "two_level ", "proved");
}

static void a_layout_is_played(void **state)
{
    (void)state;
    expect_shown((const char *const[]){"show", "all_reduce", "--run", "--nodes", "3+2", "-a",
                                       "two_level", NULL},
                 "5 ranks, 20 elements of 4 bytes, on 2 nodes", "every rank holds the sums");
}

/* What is chosen, by the same code and environment as a communicator's. */
static void choices_are_shown(void **state)
{
    (void)state;
    expect_shown((const char *const[]){"show", "choices", "-n", "8", NULL},
                 "# all_reduce, 8 ranks on 1 node, shared memory\n", "128M  direct");
    expect_shown((const char *const[]){"show", "choices", "--nodes", "4+2", "-e", "8", NULL},
                 "6 ranks on 2 nodes, network\n", "whole");
    expect_shown((const char *const[]){"show", "choices", "-n2", "-t", "tcp", "--json", NULL},
                 "[{\"bytes\":8,\"algorithm\":\"direct\",", "}]");
    expect_shown((const char *const[]){"show", "choices", "-o", "all_to_all_v", NULL},
                 "# all_to_all_v: a message from every rank to every other; ", "nothing to choose");
    expect_shown((const char *const[]){"show", "choices", "-o", "barrier", "-t", "tcp", NULL},
                 "# barrier, 8 ranks on 8 nodes, loopback\n"
                 "# a barrier is an all_reduce of 1 byte and follows its rules\n",
                 "       1  doubling ");
    expect_shown((const char *const[]){"show", "choices", "-o", "all_gather_v", "-n64", "-t", "tcp",
                                       "-b128K", "-e128K", NULL},
                 "# all_gather_v, 64 ranks on 64 nodes, loopback\n",
                 "    128K  bruck                  64K      2       4758.72 ");
    setenv("GYRE_ALGO", "all_gather_v:ring:1M-", 1);
    expect_shown((const char *const[]){"show", "choices", "-o", "all_gather_v", "-t", "tcp",
                                       "-b256K", "-e1M", NULL},
                 "\n    256K  direct ", "      1M  ring ");
    setenv("GYRE_ALGO", "all_reduce:tree:1M-", 1);
    expect_shown((const char *const[]){"show", "choices", "-n4", "-t", "tcp", "-b1M", NULL},
                 "\n      1M  tree ", "256M  tree");
    setenv("GYRE_ALGO", "auto", 1);
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    expect_shown((const char *const[]){"show", "choices", "-n4", "-t", "tcp", "-e8", NULL},
                 "loopback, reproducible\n", "8  direct ");
    expect_shown((const char *const[]){"show", "choices", "--nodes", "4x8", "--type-bytes", "1",
                                       "-b8M", "-e8M", NULL},
                 "# times are predicted for a core per rank\n", "8M  chain ");
    expect_shown((const char *const[]){"show", "choices", "--nodes", "4x8", "--type", "f8e4m3",
                                       "-b8M", "-e8M", NULL},
                 "reproducible\n", "8M  direct ");
    unsetenv("GYRE_REPRODUCIBLE");
    unsetenv("GYRE_ALGO");
}

/* By the library's own sampler; the numbers are those of torch's DistributedSampler. */
static void samples_are_shown(void **state)
{
    (void)state;
    expect_shown((const char *const[]){"show", "sampler", "-n142", "--world=4", "--epoch=3", NULL},
                 "\nrank 1: 96 43 93 114 131 50 129 ", "rank 3: 73 72 70 49 84 37 81 95 8 0 11 ");
    expect_shown((const char *const[]){"show", "sampler", "--drop-last", "-w", "4", NULL},
                 "rank 0: 4 3\nrank 1: 1 9\n", "rank 3: 5 8");
    expect_shown((const char *const[]){"show", "sampler", "--once", "-w4", "--cursor=5", NULL},
                 "rank 0: 6\nrank 1: 9 2\n", "rank 3: 8");
    expect_shown((const char *const[]){"show", "sampler", "--no-shuffle", "--shares", "4,2", NULL},
                 "rank 0: 0 2 3 4 6 7 9\n", "rank 1: 1 5 8");
    expect_shown((const char *const[]){"show", "sampler", "--help", NULL}, "\n  -n, --samples ",
                 "example: gyre show sampler");
}

static void every_verb_plays_to_the_end(void **state)
{
    static const struct {
        const char *verb, *algorithm, *end;
    } plays[] = {
        {"reduce", "direct", "the root holds the sums"},
        {"reduce", "ring", "the root holds the sums"},
        {"reduce", "tree", "the root holds the sums"},
        {"all_gather", "direct", "every rank holds the blocks of all"},
        {"all_gather", "ring", "every rank holds the blocks of all"},
        {"all_gather", "bruck", "every rank holds the blocks of all"},
        {"reduce_scatter", "direct", "every rank holds the sums of its block"},
        {"reduce_scatter", "ring", "every rank holds the sums of its block"},
        {"all_to_all", "direct", "every rank holds what each had for it"},
        {"all_to_all", "bruck", "every rank holds what each had for it"},
        {"gather", "direct", "the root holds the blocks of all"},
        {"gather", "tree", "the root holds the blocks of all"},
        {"scatter", "direct", "every rank holds its block of the root's data"},
        {"scatter", "tree", "every rank holds its block of the root's data"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++) {
        const char *verb = plays[i].verb, *name = plays[i].algorithm;
        expect_shown((const char *const[]){"show", verb, "--run", "-n", "5", "-a", name, NULL},
                     "\nafter round 0, ", plays[i].end);
        expect_shown(
            (const char *const[]){"show", verb, "--run", "--in-place", "-a", name, "-c", "3", NULL},
            "\ninput\n", plays[i].end);
    }
    expect_shown(
        (const char *const[]){"show", "gather", "--run", "--counts", "3,0,5", "--root", "1", NULL},
        " |", "the root holds the blocks of all");
}

static void expect_page(const char *const words[], const char *const parts[])
{
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_string_equal(rig.err_text, "");
    assert_ptr_equal(strstr(rig.out_text, "<!doctype html>"), rig.out_text);
    assert_true(rig_has(rig_last_line(rig.out_text), "</html>"));
    for (; *parts; parts++)
        assert_true(rig_has(rig.out_text, *parts));
    rig_end(&rig);
}

/* The data of the page; tests/program/cli/page.py looks at it in a browser. */
static void a_page_has_the_proof(void **state)
{
    (void)state;
    expect_page(
        (const char *const[]){"show", "all_reduce", "-a", "ring", "-n", "2", "--html", "-", NULL},
        (const char *const[]){
            "{\"kind\":\"REDUCE\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":16,"
            "\"sources\":[[\"SCRATCH\",0],[\"INPUT\",0]],\"final\":true,"
            "\"holds\":[[0,16,2]],\"numbers\":[300,302,304,306]}",
            "\"values\":[[[0,1]],[[1,2]],[[0,2]],[[0,2]]]", "\"defect\":null}]</script>", NULL});
    expect_page((const char *const[]){"show", "all_reduce", "-a", "tree", "--beside", "chain",
                                      "--html", "-", NULL},
                (const char *const[]){"\"algorithm\":\"tree\"", "\"algorithm\":\"chain\"", NULL});
    expect_page(
        (const char *const[]){"show", "broadcast", "-a", "tree", "-n", "17", "--html", "-", NULL},
        (const char *const[]){"\"input\":null", NULL});
}

static void a_page_is_a_file(void **state)
{
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/page.html", rig_folder());
    rig_run(&rig, NULL, (const char *const[]){"show", "gather", "-n", "3", "--html", path, NULL});
    rig_expect(&rig, 0, "");
    assert_true(rig_has(rig.out_text, "page.html: gather by direct, 3 ranks, "));
    rig_end(&rig);
    assert_int_equal(remove(path), 0);
    rig_run(&rig, NULL, (const char *const[]){"show", "gather", "--html", "/nowhere/page", NULL});
    rig_expect(&rig, 1, "/nowhere/page: cannot create a file beside it");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_word_gets_one_sentence),
        cmocka_unit_test(tables_and_json),
        cmocka_unit_test(every_algorithm_plays_to_the_end),
        cmocka_unit_test(a_play_counts_exchanges),
        cmocka_unit_test(schedules_are_proved),
        cmocka_unit_test(a_layout_is_played),
        cmocka_unit_test(choices_are_shown),
        cmocka_unit_test(samples_are_shown),
        cmocka_unit_test(every_verb_plays_to_the_end),
        cmocka_unit_test(a_page_has_the_proof),
        cmocka_unit_test(a_page_is_a_file),
    };
    return cmocka_run_group_tests_name("gyre show", tests, NULL, NULL);
}
