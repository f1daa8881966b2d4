/* Dumps for torch's flight recorder, read back by a small machine for pickles: what they hold,
 * which numbers survive, and which calls are left out. The analyser itself reads dumps of a real
 * job in program/cli/trace_torch.sh. */
#include "cli/trace/reading/calls.h"
#include "cli/trace/pickle.h"
#include "cli/trace/torch.h"
#include "rig/test.h"
#include "transport/stream/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- a pickle as text -------------------------------------------------------------------------- */

static char *bytes;
static size_t length;
static FILE *pickle;

static void begin_pickle(void)
{
    pickle = open_memstream(&bytes, &length);
    assert_non_null(pickle);
}

static int64_t number_at(const uint8_t *at, int count)
{
    uint64_t number = count && at[count - 1] & 0x80 ? UINT64_MAX : 0;
    for (int i = count; i-- > 0;)
        number = number << 8 | at[i];
    return (int64_t)number;
}

/* Writes what one instruction pushes or closes. Returns where the next one stands. */
static const uint8_t *tell_instruction(FILE *text, const uint8_t *at)
{
    static const char closing[] = "}])";
    static char open[16];
    static int depth;
    switch (*at) {
    case '}':
    case ']':
        assert_int_equal(at[1], '(');
        open[depth++] = *at == '}' ? '}' : ']';
        fputc(*at == '}' ? '{' : '[', text);
        return at + 2;
    case '(':
        open[depth++] = ')';
        fputc('(', text);
        return at + 1;
    case 'u':
    case 'e':
    case 't':
        assert_true(depth > 0);
        assert_int_equal(open[--depth], closing[strchr("uet", *at) - "uet"]);
        fprintf(text, "%c ", open[depth]);
        return at + 1;
    case 'X':
        fprintf(text, "%.*s ", (int)number_at(at + 1, 4), (const char *)at + 5);
        return at + 5 + number_at(at + 1, 4);
    case 0x8a:
        fprintf(text, "%" PRId64 " ", number_at(at + 2, at[1]));
        return at + 2 + at[1];
    default:
        assert_true(*at == 0x88 || *at == 0x89 || *at == 'N');
        fputs(*at == 'N' ? "None " : *at == 0x88 ? "True " : "False ", text);
        return at + 1;
    }
}

/* Ends the pickle, and tells it. The caller frees the text. */
static char *tell_pickle(void)
{
    char *told = NULL;
    size_t told_length = 0;
    assert_int_equal(fclose(pickle), 0);
    FILE *text = open_memstream(&told, &told_length);
    assert_non_null(text);
    assert_memory_equal(bytes, "\x80\x02", 2);
    const uint8_t *at = (const uint8_t *)bytes + 2;
    while (*at != '.')
        at = tell_instruction(text, at);
    assert_ptr_equal(at + 1, bytes + length);
    fclose(text);
    free(bytes);
    return told;
}

static void numbers_and_words_survive(void **state)
{
    (void)state;
    begin_pickle();
    gyre_pickle_begin(pickle);
    gyre_pickle_begin_list(pickle);
    gyre_pickle_number(pickle, 0);
    gyre_pickle_number(pickle, 127);
    gyre_pickle_number(pickle, 128);
    gyre_pickle_number(pickle, -128);
    gyre_pickle_number(pickle, -129);
    gyre_pickle_number(pickle, INT64_MAX);
    gyre_pickle_number(pickle, INT64_MIN);
    gyre_pickle_text(pickle, "");
    gyre_pickle_text(pickle, "M\xc3\xa4rz");
    gyre_pickle_bool(pickle, true);
    gyre_pickle_none(pickle);
    gyre_pickle_end_list(pickle);
    gyre_pickle_end(pickle);
    char *told = tell_pickle();
    assert_string_equal(told, "[0 127 128 -128 -129 9223372036854775807 -9223372036854775808  "
                              "M??rz True None ] ");
    free(told);
}

/* -- a timeline -------------------------------------------------------------------------------- */

#define RANKS 3
#define BARS  4

static struct gyre_timeline_rank rank[RANKS];
static struct gyre_bar bar[RANKS][BARS];
static struct gyre_timeline timeline;

static int make_timeline(void **state)
{
    (void)state;
    memset(rank, 0, sizeof rank);
    timeline = (struct gyre_timeline){.of = rank, .count = RANKS, .n = RANKS};
    for (uint32_t r = 0; r < RANKS; r++) {
        rank[r].head.rank = r;
        rank[r].bar = bar[r];
    }
    return 0;
}

static void add_call(uint32_t r, uint32_t verb, uint64_t sequence, uint32_t comm)
{
    struct gyre_bar *call = &bar[r][rank[r].bars++];
    *call = (struct gyre_bar){.begin = (int64_t)(100 * sequence),
                              .end = (int64_t)(100 * sequence + 50),
                              .number = rank[r].bars,
                              .sequence = sequence,
                              .signature = gyre_signature_pack(verb, GYRE_F32, GYRE_SUM, 0),
                              .size = 8,
                              .comm = comm,
                              .kind = GYRE_EVENT_CALL};
}

/* The dump of a rank as text, to be freed. */
static char *tell_dump(uint32_t place)
{
    struct gyre_calls calls;
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_calls_read(&calls, &timeline, &trouble), 0);
    begin_pickle();
    gyre_torch_put(pickle, &calls, place);
    gyre_calls_free(&calls);
    return tell_pickle();
}

static void a_dump_has_a_call_as_torch_tells_it(void **state)
{
    (void)state;
    add_call(1, GYRE_SIGNATURE_ALL_GATHER, 7, 0);
    bar[1][0].open = true;
    char *told = tell_dump(1);
    assert_string_equal(
        told,
        "{version 2.10 rank 1 pg_config {0 {name 0 desc default_pg ranks [0, 1, 2] } } entries "
        "[{record_id 0 pg_id 0 profiling_name c10d:all_gather process_group (0 default_pg ) "
        "collective_seq_id 7 p2p_seq_id 0 op_id 7 input_sizes [[8 ] ] input_dtypes [Float ] "
        "output_sizes [[24 ] ] output_dtypes [Float ] state started time_created_ns 700 "
        "time_discovered_started_ns 700 time_discovered_completed_ns None retired False "
        "timeout_ms 0 is_p2p False frames [] } ] } ");
    free(told);
}

static void groups_have_their_members(void **state)
{
    (void)state;
    rank[0].head.comm[0] = (struct gyre_record_comm){5, 2, 0, 1};
    add_call(2, GYRE_SIGNATURE_REDUCE_SCATTER, 1, 5); /* gone from the head's table */
    char *told = tell_dump(2);
    assert_non_null(strstr(told, " 5 {name 5 desc undefined ranks [0, 2] } "));
    assert_non_null(strstr(told, "process_group (5 undefined )"));
    assert_non_null(strstr(told, "input_sizes [[16 ] ]"));
    assert_non_null(strstr(told, "output_sizes [[8 ] ]"));
    free(told);
    told = tell_dump(1);
    assert_null(strstr(told, "undefined"));
    free(told);
}

static void calls_that_a_ring_has_lost_are_left_out_everywhere(void **state)
{
    (void)state;
    add_call(0, GYRE_SIGNATURE_ALL_REDUCE, 3, 0);
    add_call(0, GYRE_SIGNATURE_ALL_REDUCE, 4, 0);
    add_call(1, GYRE_SIGNATURE_ALL_REDUCE, 4, 0);
    rank[1].lost = 1;
    char *told = tell_dump(0);
    assert_null(strstr(told, "collective_seq_id 3"));
    assert_non_null(strstr(told, "{record_id 0 pg_id 0"));
    assert_non_null(strstr(told, "collective_seq_id 4"));
    free(told);
}

static void messages_are_left_out(void **state)
{
    (void)state;
    add_call(0, GYRE_SIGNATURE_SEND, 1, GYRE_RECORD_MESSAGES);
    char *told = tell_dump(0);
    assert_non_null(strstr(told, "entries [] "));
    free(told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_words_survive),
        cmocka_unit_test_setup(a_dump_has_a_call_as_torch_tells_it, make_timeline),
        cmocka_unit_test_setup(groups_have_their_members, make_timeline),
        cmocka_unit_test_setup(calls_that_a_ring_has_lost_are_left_out_everywhere, make_timeline),
        cmocka_unit_test_setup(messages_are_left_out, make_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
