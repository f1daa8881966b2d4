/* Execution traces of Chakra, read back by a small reader of protocol buffers: which nodes there
 * are, what each depends on, and what a collective and a message say of themselves. */
#include "cli/trace/chakra.h"
#include "rig/test.h"
#include "transport/stream/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- messages as text -------------------------------------------------------------------------- */

static uint64_t read_number(const uint8_t **at)
{
    uint64_t number = 0;
    int shift = 0;
    do
        number |= (uint64_t)(**at & 0x7f) << shift;
    while (shift += 7, *(*at)++ & 0x80);
    return number;
}

/* Tells an attribute: "comm_size=32". Its value is a number, but for the name of a group. */
static void tell_attribute(FILE *text, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        const uint64_t key = read_number(&at), number = read_number(&at);
        if ((key & 7) == 0) {
            fprintf(text, "=%" PRIu64 "@%" PRIu64 " ", number, key >> 3);
            continue;
        }
        fprintf(text, key >> 3 == 1 ? " %.*s" : "=%.*s@29 ", (int)number, (const char *)at);
        at += number;
    }
    assert_ptr_equal(at, end);
}

/* Tells a node: its fields by number, and its attributes. */
static void tell_node(FILE *text, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        const uint64_t key = read_number(&at), number = read_number(&at);
        if ((key & 7) == 0) {
            fprintf(text, "%" PRIu64 ":%" PRIu64 " ", key >> 3, number);
            continue;
        }
        if (key >> 3 == 10)
            tell_attribute(text, at, at + number);
        else
            fprintf(text, "%" PRIu64 ":%.*s ", key >> 3, (int)number, (const char *)at);
        at += number;
    }
    assert_ptr_equal(at, end);
    fputc('\n', text);
}

/* -- a timeline -------------------------------------------------------------------------------- */

#define BARS 8
#define US   1000

static struct gyre_timeline_rank rank;
static struct gyre_bar bar[BARS];
static struct gyre_timeline timeline;

static int make_timeline(void **state)
{
    (void)state;
    rank = (struct gyre_timeline_rank){.bar = bar};
    rank.head.rank = 1;
    timeline = (struct gyre_timeline){.of = &rank, .count = 1, .n = 4, .begin = 1000 * US};
    return 0;
}

static void add_call(uint64_t signature, int64_t begin, int64_t end)
{
    bar[rank.bars] = (struct gyre_bar){.begin = (1000 + begin) * US,
                                       .end = (1000 + end) * US,
                                       .number = rank.bars + 1,
                                       .signature = signature,
                                       .size = 8,
                                       .kind = GYRE_EVENT_CALL};
    rank.bars++;
}

static uint64_t all_reduce(void)
{
    return gyre_signature_pack(GYRE_SIGNATURE_ALL_REDUCE, GYRE_F32, GYRE_SUM, 0);
}

/* The rank's trace as text, a line for each message; to be freed. */
static char *tell_trace(void)
{
    struct gyre_calls calls;
    struct gyre_trouble trouble = {0};
    char *bytes = NULL, *told = NULL;
    size_t length = 0, told_length = 0;
    FILE *out = open_memstream(&bytes, &length), *text = open_memstream(&told, &told_length);
    assert_true(out && text);
    assert_int_equal(gyre_calls_read(&calls, &timeline, &trouble), 0);
    gyre_chakra_put(out, &calls, 0);
    gyre_calls_free(&calls);
    fclose(out);
    const uint8_t *at = (const uint8_t *)bytes, *end = at + length;
    while (at < end) {
        const uint64_t size = read_number(&at);
        tell_node(text, at, at + size);
        at += size;
    }
    assert_ptr_equal(at, end);
    fclose(text);
    free(bytes);
    return told;
}

static void expect_trace(const char *expected)
{
    char *told = tell_trace();
    assert_string_equal(told, expected);
    free(told);
}

#define HEAD    "1:0.0.4 \n"
#define NOT_CPU " is_cpu_op=0@27 "

static void calls_and_what_lies_between_follow_each_other(void **state)
{
    (void)state;
    add_call(all_reduce(), 5, 300);
    add_call(gyre_signature_pack(GYRE_SIGNATURE_REDUCE_SCATTER, GYRE_F64, GYRE_SUM, 0), 300, 310);
    expect_trace(HEAD "1:1 2:compute 3:4 6:0 7:5 " NOT_CPU "\n"
                      "1:2 2:all_reduce f32 sum, 8 elements 3:7 5:1 6:5 7:295 " NOT_CPU
                      " comm_type=0@9  comm_size=32@9  pg_name=0@29 \n"
                      "1:3 2:reduce_scatter f64 sum, 8 elements 3:7 5:2 6:300 7:10 " NOT_CPU
                      " comm_type=7@9  comm_size=256@9  pg_name=0@29 \n");
}

/* Two calls under way at once: both depend on what had ended, and nothing was computed between. */
static void calls_that_overlap_depend_on_what_had_ended(void **state)
{
    (void)state;
    add_call(all_reduce(), 0, 10);
    add_call(all_reduce(), 10, 50);
    add_call(all_reduce(), 20, 40);
    add_call(all_reduce(), 45, 60);
    char *told = tell_trace();
    assert_non_null(strstr(told, "1:2 2:all_reduce f32 sum, 8 elements 3:7 5:1 6:10 7:40 "));
    assert_non_null(strstr(told, "1:3 2:all_reduce f32 sum, 8 elements 3:7 5:1 6:20 7:20 "));
    assert_non_null(strstr(told, "1:4 2:all_reduce f32 sum, 8 elements 3:7 5:3 6:45 7:15 "));
    assert_null(strstr(told, "compute"));
    free(told);
}

static void messages_name_both_ends(void **state)
{
    (void)state;
    add_call(gyre_signature_message(GYRE_SIGNATURE_SEND, GYRE_F32, 5, 3), 0, 10);
    add_call(gyre_signature_message(GYRE_SIGNATURE_RECV, GYRE_F32, 0, 2), 10, 20);
    add_call(gyre_signature_message(GYRE_SIGNATURE_RECV, GYRE_F32, 0, GYRE_SIGNATURE_ANYONE), 20,
             30);
    expect_trace(HEAD "1:1 2:send f32 to rank 3 with tag 5, 8 elements 3:5 6:0 7:10 " NOT_CPU
                      " comm_src=1@7  comm_dst=3@7  comm_tag=5@7  comm_size=32@9 \n"
                      "1:2 2:recv f32 from rank 2, 8 elements 3:6 5:1 6:10 7:10 " NOT_CPU
                      " comm_src=2@7  comm_dst=1@7  comm_tag=0@7  comm_size=32@9 \n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(calls_and_what_lies_between_follow_each_other, make_timeline),
        cmocka_unit_test_setup(calls_that_overlap_depend_on_what_had_ended, make_timeline),
        cmocka_unit_test_setup(messages_name_both_ends, make_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
