/* The checker's rules, one by one: promises that a real schedule does not keep, and schedules of
 * two ranks that break one rule and keep all others. check_test.c comes from the other side, with
 * real schedules spoiled at random places. */
#include "collectives/algorithms/table.h"
#include "collectives/prove/check.h"
#include "rig/test.h"

#include <string.h>

static const struct gyre_algorithm *real;

/* -- promises that are not kept ---------------------------------------------------------------- */

static struct {
    int rounds, scratch, steps, sources, sent;
} lie;

static struct gyre_extent lying_extent(const struct gyre_slice *slice)
{
    struct gyre_extent extent = real->extent(slice);
    extent.rounds += lie.rounds;
    extent.scratch_bytes += lie.scratch;
    extent.step_max += lie.steps;
    extent.source_max += lie.sources;
    return extent;
}

static void lying_round(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round)
{
    if (index < real->extent(slice).rounds)
        real->round(slice, index, round);
}

static uint64_t lying_sent_bytes(const struct gyre_slice *slice)
{
    return real->sent_bytes(slice) + lie.sent;
}

static int check_lie(struct gyre_slice slice, struct gyre_trouble *trouble)
{
    struct gyre_algorithm liar = *real;
    liar.extent = lying_extent;
    liar.round = lying_round;
    liar.sent_bytes = lying_sent_bytes;
    *trouble = (struct gyre_trouble){0};
    int status = gyre_check_schedule(&liar, &slice, trouble);
    memset(&lie, 0, sizeof lie);
    return status;
}

static void expect_lie_caught(struct gyre_slice slice, const char *word)
{
    struct gyre_trouble trouble;
    assert_int_equal(check_lie(slice, &trouble), GYRE_INVALID);
    if (strstr(trouble.text, word) == NULL)
        fail_msg("'%s' does not name '%s'", trouble.text, word);
}

static void expect_lies_caught(struct gyre_slice slice)
{
    struct gyre_trouble trouble;
    if (check_lie(slice, &trouble) != 0)
        fail_msg("%s", trouble.text);
    lie.rounds = -1; /* an all-to-all may be left with rounds for those in place alone */
    expect_lie_caught(slice, slice.verb == GYRE_VERB_ALL_TO_ALL ? "" : "OUTPUT");
    lie.rounds = 1;
    expect_lie_caught(slice, "last of");
    lie.scratch = 4;
    expect_lie_caught(slice, "SCRATCH");
    if (real->extent(&slice).scratch_bytes > 0) {
        lie.scratch = -4;
        expect_lie_caught(slice, "out of bounds");
    }
    lie.sent = 4;
    expect_lie_caught(slice, "sent_bytes");
    lie.sent = -4;
    expect_lie_caught(slice, "sent_bytes");
}

static void test_extent_and_formula(void **state)
{
    struct gyre_slice slice = {.n = 5, .element = 4, .count = 5003, .stride = 5003};
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned verb = 0; verb < GYRE_VERBS; verb++) {
            real = *it;
            slice.verb = verb;
            if (gyre_algorithm_builds(real, &slice))
                expect_lies_caught(slice);
        }
}

/* How many steps and sources a round has at most is exact for an all-reduce. */
static void test_fullest_round(void **state)
{
    struct gyre_slice slice = {.verb = GYRE_VERB_ALL_REDUCE, .n = 5, .element = 4, .count = 5003};
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++) {
        real = *it;
        if (!gyre_algorithm_builds(real, &slice))
            continue;
        lie.steps = -1;
        expect_lie_caught(slice, "more than the extent");
        lie.sources = -1;
        expect_lie_caught(slice, "more than the extent");
    }
}

static struct gyre_extent uneven_extent(const struct gyre_slice *slice)
{
    struct gyre_extent extent = real->extent(slice);
    extent.rounds += slice->rank == 2;
    return extent;
}

static void expect_refused(const struct gyre_algorithm *algorithm, struct gyre_slice slice,
                           const char *word)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_check_schedule(algorithm, &slice, &trouble), GYRE_INVALID);
    if (strstr(trouble.text, word) == NULL)
        fail_msg("'%s' does not name '%s'", trouble.text, word);
}

static void test_claims(void **state)
{
    struct gyre_slice slice = {.verb = GYRE_VERB_ALL_REDUCE, .n = 5, .element = 4, .count = 23};
    real = gyre_algorithm_find("ring");
    struct gyre_algorithm claims = *real;
    claims.rank_order = true;
    expect_refused(&claims, slice, "rank order");
    claims = *real;
    claims.extent = uneven_extent;
    expect_refused(&claims, slice, "rank 2");
    claims = *real;
    claims.verbs = 1u << GYRE_VERB_BROADCAST;
    expect_refused(&claims, slice, "does not build");
    slice.root = 5;
    expect_refused(real, slice, "root = 5");
    slice = (struct gyre_slice){.n = 5, .element = 8, .count = UINT64_C(1) << 61};
    expect_refused(real, slice, "count");
}

/* -- schedules of two ranks that are almost right ---------------------------------------------- */

#define BYTES  8            /* two elements of 4 */
#define STRIDE UINT64_C(20) /* from block to block: a gap of three */

/* One rule broken, everything else in order: only the check that has `word` in its message can
 * object. */
struct almost {
    void (*round)(const struct gyre_slice *, uint64_t index, struct gyre_round *);
    enum gyre_verb verb;
    uint32_t rounds, scratch_bytes;
    const char *word;
};

static const struct almost *almost;

/* The broadcast from rank 0 to rank 1 that most of them are made of. */
static void hand_over(const struct gyre_slice *s, struct gyre_round *round, uint64_t at,
                      struct gyre_place to, uint64_t length)
{
    if (s->rank == 0)
        gyre_round_send(round, 1, gyre_at(GYRE_INPUT, at), length);
    else
        gyre_round_recv(round, 0, to, length);
    if (s->rank == 0)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, at), gyre_at(GYRE_INPUT, at), length);
}

static void copy_on_1(const struct gyre_slice *s, struct gyre_round *round, struct gyre_place to,
                      struct gyre_place from)
{
    if (s->rank == 1)
        gyre_round_copy(round, to, from, BYTES);
}

/* Both ranks swap their data, which lands at `landing`. */
static void trade(const struct gyre_slice *s, struct gyre_round *round, struct gyre_place landing)
{
    gyre_round_recv(round, 1 - s->rank, landing, BYTES);
    gyre_round_send(round, 1 - s->rank, gyre_at(GYRE_INPUT, 0), BYTES);
}

/* Adds the own data and the other's, in rank order. */
static void add(const struct gyre_slice *s, struct gyre_round *round, struct gyre_place others)
{
    struct gyre_place own = gyre_at(GYRE_INPUT, 0);
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), BYTES, GYRE_STEP_FINAL);
    gyre_round_source(round, s->rank == 0 ? own : others);
    gyre_round_source(round, s->rank == 0 ? others : own);
}

static void two_messages(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    hand_over(s, round, 0, gyre_at(GYRE_OUTPUT, 0), 4);
    hand_over(s, round, 4, gyre_at(GYRE_OUTPUT, 4), 4);
}

static void torn_element(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        hand_over(s, round, 0, gyre_at(GYRE_OUTPUT, 0), 3);
    else
        hand_over(s, round, 3, gyre_at(GYRE_OUTPUT, 3), 5);
}

static void crooked_scratch(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        hand_over(s, round, 0, gyre_at(GYRE_SCRATCH, 1), BYTES);
    else
        copy_on_1(s, round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_SCRATCH, 1));
}

static void talk_to_oneself(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    hand_over(s, round, 0, gyre_at(GYRE_OUTPUT, 0), BYTES);
    if (s->rank == 0) {
        gyre_round_send(round, 0, gyre_at(GYRE_INPUT, 0), BYTES);
        gyre_round_recv(round, 0, gyre_at(GYRE_SCRATCH, 0), BYTES);
    }
}

static void slide(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        hand_over(s, round, 0, gyre_at(GYRE_SCRATCH, 0), BYTES);
    else if (index == 1)
        copy_on_1(s, round, gyre_at(GYRE_SCRATCH, 4), gyre_at(GYRE_SCRATCH, 0));
    else
        copy_on_1(s, round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_SCRATCH, 4));
}

static void read_no_input(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        copy_on_1(s, round, gyre_at(GYRE_SCRATCH, 0), gyre_at(GYRE_INPUT, 0));
    else
        hand_over(s, round, 0, gyre_at(GYRE_OUTPUT, 0), BYTES);
}

static void sum_of_a_broadcast(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0) {
        hand_over(s, round, 0, gyre_at(GYRE_OUTPUT, 0), BYTES);
    } else if (s->rank == 1) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), BYTES, 0);
        gyre_round_source(round, gyre_at(GYRE_OUTPUT, 0));
    }
}

static void final_twice(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0) {
        trade(s, round, gyre_at(GYRE_SCRATCH, 0));
    } else if (index == 1) {
        add(s, round, gyre_at(GYRE_SCRATCH, 0));
    } else {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), BYTES, GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_OUTPUT, 0));
    }
}

/* Right out of place; in place, what arrives lands on what is being sent. */
static void land_on_output(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        trade(s, round, gyre_at(GYRE_OUTPUT, 0));
    else
        add(s, round, gyre_at(GYRE_OUTPUT, 0));
}

/* Right out of place; in place, the own data is overwritten a round before it is added. */
static void copy_over_own(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        trade(s, round, gyre_at(GYRE_SCRATCH, 0));
    else if (index == 1)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_SCRATCH, 0), BYTES);
    else
        add(s, round, gyre_at(GYRE_OUTPUT, 0));
}

/* -- the verbs with blocks: displaced in place, told in place, missing buffers, gaps ----------- */

static uint64_t block_of(uint32_t rank)
{
    return rank * STRIDE;
}

static void copy(struct gyre_round *round, enum gyre_buffer to_buffer, uint64_t to,
                 enum gyre_buffer buffer, uint64_t from)
{
    gyre_round_copy(round, gyre_at(to_buffer, to), gyre_at(buffer, from), BYTES);
}

/* Right out of place; in place, what arrives lands on what is being sent. */
static void gather_over_own(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t own = block_of(s->rank), other = block_of(1 - s->rank);
    if (index == 0)
        trade(s, round, gyre_at(GYRE_OUTPUT, own));
    else if (index == 1)
        copy(round, GYRE_OUTPUT, other, GYRE_OUTPUT, own);
    else
        copy(round, GYRE_OUTPUT, own, GYRE_INPUT, 0);
}

/* Right out of place; in place, the own block is overwritten a round before it is copied. */
static void gather_late(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t own = block_of(s->rank), other = block_of(1 - s->rank);
    if (index == 0)
        trade(s, round, gyre_at(GYRE_SCRATCH, 0));
    else if (index == 1)
        copy(round, GYRE_OUTPUT, own, GYRE_SCRATCH, 0);
    else if (index == 2)
        copy(round, GYRE_OUTPUT, other, GYRE_OUTPUT, own);
    else
        copy(round, GYRE_OUTPUT, own, GYRE_INPUT, 0);
}

/* Right, but that block 1 begins where block 0 ends, in the gap. */
static void gather_in_the_gap(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    trade(s, round, gyre_at(GYRE_OUTPUT, (1 - s->rank) * BYTES));
    copy(round, GYRE_OUTPUT, s->rank * BYTES, GYRE_INPUT, 0);
}

/* Reads on behind the own block, as if the blocks touched. */
static void scatter_from_the_gap(const struct gyre_slice *s, uint64_t index,
                                 struct gyre_round *round)
{
    if (s->rank == 0)
        gyre_round_send(round, 1, gyre_at(GYRE_INPUT, BYTES), BYTES);
    else
        gyre_round_recv(round, 0, gyre_at(GYRE_OUTPUT, 0), BYTES);
    if (s->rank == 0)
        copy(round, GYRE_OUTPUT, 0, GYRE_INPUT, 0);
}

/* Each gets the other's block. */
static void scatter_crossed(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 1 && s->rank == 0)
        copy(round, GYRE_OUTPUT, 0, GYRE_INPUT, block_of(1));
    else if (index == 0 && s->rank == 0)
        gyre_round_send(round, 1, gyre_at(GYRE_INPUT, block_of(0)), BYTES);
    else if (index == 0)
        gyre_round_recv(round, 0, gyre_at(GYRE_OUTPUT, 0), BYTES);
}

static void swap_blocks(const struct gyre_slice *s, struct gyre_round *round,
                        struct gyre_place landing)
{
    gyre_round_recv(round, 1 - s->rank, landing, BYTES);
    gyre_round_send(round, 1 - s->rank, gyre_at(GYRE_INPUT, block_of(1 - s->rank)), BYTES);
}

/* Right out of place; in place, what arrives lands on the own block, which is added afterwards. */
static void scatter_sum_over_own(const struct gyre_slice *s, uint64_t index,
                                 struct gyre_round *round)
{
    struct gyre_place own = gyre_at(GYRE_INPUT, block_of(s->rank));
    struct gyre_place others = gyre_at(GYRE_OUTPUT, 0);
    if (index == 0) {
        swap_blocks(s, round, others);
        return;
    }
    gyre_round_reduce(round, others, BYTES, GYRE_STEP_FINAL);
    gyre_round_source(round, s->rank == 0 ? own : others);
    gyre_round_source(round, s->rank == 0 ? others : own);
}

/* Right for who does not work in place, and deaf to being told. */
static void swap_untold(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    swap_blocks(s, round, gyre_at(GYRE_OUTPUT, block_of(1 - s->rank)));
    copy(round, GYRE_OUTPUT, block_of(s->rank), GYRE_INPUT, block_of(s->rank));
}

static void reduce_everywhere(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        trade(s, round, gyre_at(GYRE_SCRATCH, 0));
    else
        add(s, round, gyre_at(GYRE_SCRATCH, 0));
}

/* The blocks change places. */
static void gather_crossed(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0 && s->rank == 0)
        copy(round, GYRE_OUTPUT, block_of(1), GYRE_INPUT, 0);
    else if (index == 1 && s->rank == 0)
        gyre_round_recv(round, 1, gyre_at(GYRE_OUTPUT, block_of(0)), BYTES);
    else if (index == 1)
        gyre_round_send(round, 0, gyre_at(GYRE_INPUT, 0), BYTES);
}

static void all_right(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (s->verb == GYRE_VERB_BROADCAST && index == 0)
        hand_over(s, round, 0, gyre_at(GYRE_SCRATCH, 0), BYTES);
    else if (s->verb == GYRE_VERB_BROADCAST)
        copy_on_1(s, round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_SCRATCH, 0));
    else if (index == 0)
        trade(s, round, gyre_at(GYRE_SCRATCH, 0));
    else
        add(s, round, gyre_at(GYRE_SCRATCH, 0));
}

static struct gyre_extent almost_extent(const struct gyre_slice *s)
{
    return (struct gyre_extent){almost->rounds, almost->scratch_bytes, 4, 4};
}

static uint64_t almost_sent_bytes(const struct gyre_slice *s)
{
    if (s->verb == GYRE_VERB_BROADCAST || s->verb == GYRE_VERB_SCATTER)
        return s->rank == 0 ? BYTES : 0;
    return s->verb == GYRE_VERB_GATHER && s->rank == 0 ? 0 : BYTES;
}

static int check_almost(const struct almost *schedule, struct gyre_trouble *trouble)
{
    const struct gyre_algorithm algorithm = {.name = "almost",
                                             .verbs = 1u << schedule->verb,
                                             .rank_order = true,
                                             .extent = almost_extent,
                                             .round = schedule->round,
                                             .sent_bytes = almost_sent_bytes};
    struct gyre_slice slice = {
        .verb = schedule->verb, .n = 2, .element = 4, .count = 2, .stride = STRIDE / 4};
    almost = schedule;
    return gyre_check_schedule(&algorithm, &slice, trouble);
}

static void test_almost_right(void **state)
{
    static const struct almost cases[] = {
        {two_messages, GYRE_VERB_BROADCAST, 1, 0, "2 matching"},
        {torn_element, GYRE_VERB_BROADCAST, 2, 0, "whole elements"},
        {crooked_scratch, GYRE_VERB_BROADCAST, 2, BYTES + 1, "cuts an element"},
        {talk_to_oneself, GYRE_VERB_BROADCAST, 1, BYTES, "its peer is rank 0"},
        {slide, GYRE_VERB_BROADCAST, 3, BYTES + 4, "reads in the same round"},
        {read_no_input, GYRE_VERB_BROADCAST, 2, BYTES, "only the root has an INPUT"},
        {sum_of_a_broadcast, GYRE_VERB_BROADCAST, 2, 0, "not rank 0's data"},
        {final_twice, GYRE_VERB_ALL_REDUCE, 3, BYTES, "FINAL already"},
        {land_on_output, GYRE_VERB_ALL_REDUCE, 2, 0, "in the same round"},
        {copy_over_own, GYRE_VERB_ALL_REDUCE, 3, BYTES, "in place, INPUT + 0 has been overwritten"},
        {gather_over_own, GYRE_VERB_ALL_GATHER, 3, 0, "in the same round"},
        {gather_late, GYRE_VERB_ALL_GATHER, 4, BYTES, "in place, INPUT + 0 has been overwritten"},
        {gather_in_the_gap, GYRE_VERB_ALL_GATHER, 1, 0, "OUTPUT + 8 is out of bounds"},
        {scatter_from_the_gap, GYRE_VERB_SCATTER, 1, 0, "INPUT + 8 is out of bounds"},
        {scatter_crossed, GYRE_VERB_SCATTER, 2, 0, "ends as byte 20 of the data"},
        {scatter_sum_over_own, GYRE_VERB_REDUCE_SCATTER, 2, 0, "INPUT + 0 has been overwritten"},
        {swap_untold, GYRE_VERB_ALL_TO_ALL, 1, 0, "in the same round"},
        {reduce_everywhere, GYRE_VERB_REDUCE, 2, BYTES, "only the root has an OUTPUT"},
        {gather_crossed, GYRE_VERB_GATHER, 2, 0, "not rank 0's data"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gyre_trouble trouble = {0};
        assert_int_equal(check_almost(&cases[i], &trouble), GYRE_INVALID);
        if (strstr(trouble.text, cases[i].word) == NULL)
            fail_msg("'%s' does not say '%s'", trouble.text, cases[i].word);
    }
}

/* The parts that those cases are made of are right by themselves. */
static void test_all_right(void **state)
{
    const struct almost broadcast = {all_right, GYRE_VERB_BROADCAST, 2, BYTES, ""};
    const struct almost all_reduce = {all_right, GYRE_VERB_ALL_REDUCE, 2, BYTES, ""};
    struct gyre_trouble trouble = {0};
    if (check_almost(&broadcast, &trouble) != 0 || check_almost(&all_reduce, &trouble) != 0)
        fail_msg("%s", trouble.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extent_and_formula),
        cmocka_unit_test(test_fullest_round),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_almost_right),
        cmocka_unit_test(test_all_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
