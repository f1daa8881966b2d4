/* What readers and programs get to see, letter by letter. */
#include "collectives/algorithms/table.h"
#include "collectives/prove/print.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

static struct gyre_slice slice_of(enum gyre_verb verb, uint32_t n, uint64_t count)
{
    return (struct gyre_slice){.verb = verb, .n = n, .element = 4, .count = count};
}

typedef int printing(FILE *, const struct gyre_algorithm *, const struct gyre_slice *,
                     struct gyre_print_ranks);

static void expect_text(printing *print, const char *name, struct gyre_slice slice,
                        struct gyre_print_ranks ranks, const char *expected)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(print(out, gyre_algorithm_find(name), &slice, ranks), 0);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static void test_table(void **state)
{
    expect_text(gyre_print_table, "ring", slice_of(GYRE_VERB_ALL_REDUCE, 2, 5),
                (struct gyre_print_ranks){1, 2},
                "all_reduce by ring: 2 ranks, 5 elements of 4 bytes\n"
                "neighbours only: reduce-scatter and all-gather; broadcast and reduce in "
                "segments\n"
                "3 rounds; ranges are [first byte, one behind the last)\n"
                "\n"
                "rank 1: sends 20 bytes, scratch 12 bytes\n"
                "  round 0   RECV    SCRATCH [ 0,  8)  <- rank 0\n"
                "            SEND    INPUT   [ 0, 12)  -> rank 0\n"
                "  round 1   REDUCE  OUTPUT  [12, 20)  =  SCRATCH [ 0,  8) + INPUT   [12, 20)  "
                "final\n"
                "  round 2   RECV    OUTPUT  [ 0, 12)  <- rank 0\n"
                "            SEND    OUTPUT  [12, 20)  -> rank 0\n");
}

/* Rounds in which a rank does nothing are left out; a REDUCE of many goes on in its own column. */
static void test_table_of_few_and_many(void **state)
{
    struct gyre_slice slice = slice_of(GYRE_VERB_BROADCAST, 3, 1);
    slice.root = 1;
    expect_text(gyre_print_table, "tree", slice, (struct gyre_print_ranks){0, 2},
                "broadcast by tree: 3 ranks, 1 element of 4 bytes, root 1\n"
                "binomial tree: log2(n) steps for small data; all-reduce goes up and down\n"
                "2 rounds; ranges are [first byte, one behind the last)\n"
                "\n"
                "rank 0: sends 0 bytes, scratch 0 bytes\n"
                "  round 0   RECV    OUTPUT  [0, 4)  <- rank 1\n"
                "\n"
                "rank 1: sends 8 bytes, scratch 0 bytes\n"
                "  round 0   SEND    INPUT   [0, 4)  -> rank 0\n"
                "            COPY    OUTPUT  [0, 4)  =  INPUT   [0, 4)\n"
                "  round 1   SEND    INPUT   [0, 4)  -> rank 2\n");
    expect_text(gyre_print_table, "direct", slice_of(GYRE_VERB_ALL_REDUCE, 4, 0),
                (struct gyre_print_ranks){3, 4},
                "all_reduce by direct: 4 ranks, 0 elements of 4 bytes\n"
                "everyone to everyone, summed in rank order: one-shot when small, two-shot when "
                "large\n"
                "2 rounds; ranges are [first byte, one behind the last)\n"
                "\n"
                "rank 3: sends 0 bytes, scratch 0 bytes\n"
                "  round 0   RECV    SCRATCH [0, 0)  <- rank 2\n"
                "            RECV    SCRATCH [0, 0)  <- rank 1\n"
                "            RECV    SCRATCH [0, 0)  <- rank 0\n"
                "            SEND    INPUT   [0, 0)  -> rank 0\n"
                "            SEND    INPUT   [0, 0)  -> rank 1\n"
                "            SEND    INPUT   [0, 0)  -> rank 2\n"
                "  round 1   REDUCE  OUTPUT  [0, 0)  =  SCRATCH [0, 0) + SCRATCH [0, 0) + SCRATCH "
                "[0, 0)\n"
                "                                    +  INPUT   [0, 0)  final\n");
}

static void test_json(void **state)
{
    expect_text(gyre_print_json, "tree", slice_of(GYRE_VERB_ALL_REDUCE, 2, 3),
                (struct gyre_print_ranks){0, 2},
                "{\"operation\":\"all_reduce\",\"algorithm\":\"tree\",\"n\":2,\"root\":0,"
                "\"count\":3,\"element_bytes\":4,\"ranks\":[\n"
                " {\"rank\":0,\"sent_bytes\":12,\"scratch_bytes\":12,\"rounds\":[\n"
                "  [{\"kind\":\"RECV\",\"buffer\":\"SCRATCH\",\"offset\":0,\"length\":12,"
                "\"peer\":1}],\n"
                "  [{\"kind\":\"REDUCE\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":12,"
                "\"final\":true,\"sources\":[{\"buffer\":\"INPUT\",\"offset\":0},"
                "{\"buffer\":\"SCRATCH\",\"offset\":0}]}],\n"
                "  [{\"kind\":\"SEND\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":12,"
                "\"peer\":1}]]},\n"
                " {\"rank\":1,\"sent_bytes\":12,\"scratch_bytes\":0,\"rounds\":[\n"
                "  [{\"kind\":\"SEND\",\"buffer\":\"INPUT\",\"offset\":0,\"length\":12,"
                "\"peer\":0}],\n"
                "  [],\n"
                "  [{\"kind\":\"RECV\",\"buffer\":\"OUTPUT\",\"offset\":0,\"length\":12,"
                "\"peer\":0}]]}]}\n");
}

static void test_buffers(void **state)
{
    const struct gyre_slice slice = slice_of(GYRE_VERB_ALL_REDUCE, 2, 3);
    const struct gyre_print_ranks both = {0, 2};
    struct gyre_trouble trouble = {0};
    struct gyre_play play;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(gyre_play_init(&play, gyre_algorithm_find("ring"), &slice, NULL), 0);
    gyre_print_inputs(out, &play, both);
    for (int round = 0; round < 2; round++)
        assert_int_equal(gyre_play_round(&play, &trouble), 0);
    gyre_print_buffers(out, &play, both);
    fclose(out);
    gyre_play_deinit(&play);
    assert_string_equal(text, "  rank 0  100 101 102\n"
                              "  rank 1  200 201 202\n"
                              "  rank 0  300 302   .   scratch 200 201\n"
                              "  rank 1    .   . 304   scratch 102   .\n");
    free(text);
}

/* Blocks of a rank stand apart; a rank without the buffer has a dash. */
static void test_buffers_of_blocks(void **state)
{
    const uint64_t at[] = {0, 2, 2}, count[] = {2, 0, 1};
    struct gyre_slice slice = slice_of(GYRE_VERB_GATHER, 3, 2);
    const struct gyre_print_ranks all = {0, 3};
    struct gyre_trouble trouble = {0};
    struct gyre_play play;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    slice.out = (struct gyre_blocks){at, count};
    slice.root = 1;
    assert_non_null(out);
    assert_int_equal(gyre_play_init(&play, gyre_algorithm_find("direct"), &slice, NULL), 0);
    gyre_print_title(out, gyre_algorithm_find("direct"), &slice);
    assert_int_equal(gyre_play_round(&play, &trouble), 0);
    gyre_print_buffers(out, &play, all);
    fclose(out);
    gyre_play_deinit(&play);
    assert_string_equal(
        text, "gather by direct: 3 ranks, blocks of 2, 0, 1 elements of 4 bytes, root 1\n"
              "everyone to everyone, summed in rank order: one-shot when small, two-shot when "
              "large\n"
              "  rank 0    -\n"
              "  rank 1  100 101 | 300\n"
              "  rank 2    -\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_of_few_and_many),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_buffers_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
