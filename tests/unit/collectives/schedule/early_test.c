/* A receive may be posted a round early where it is long, and where the round before spares its
 * place: out of place, in place, and where INPUT is one block of OUTPUT. */
#include "collectives/schedule/early.h"

#include "rig/test.h"

#define LONG (GYRE_EARLY_BYTES + 4)

/* A slice of an operation of three ranks whose blocks are of LONG bytes. */
static struct gyre_slice slice_of(enum gyre_verb verb, bool in_place)
{
    return (struct gyre_slice){.verb = verb,
                               .n = 3,
                               .rank = 1,
                               .element = 4,
                               .count = LONG / 4,
                               .stride = LONG / 4,
                               .in_place = in_place};
}

static bool admits(const struct gyre_slice *slice, const struct gyre_round *round,
                   struct gyre_place at, uint64_t length)
{
    const struct gyre_step receive = {.kind = GYRE_RECV, .at = at, .length = length};
    return gyre_round_admits(slice, round, &receive);
}

static void make(struct gyre_round *round)
{
    const struct gyre_extent extent = {.step_max = 4, .source_max = 4};
    assert_int_equal(gyre_round_init(round, &extent), 0);
}

static void only_a_single_long_slice_looks_ahead(void **state)
{
    (void)state;
    struct gyre_slice slice = slice_of(GYRE_VERB_ALL_REDUCE, false);
    assert_true(gyre_slice_looks_ahead(&slice, 1));
    assert_false(gyre_slice_looks_ahead(&slice, 2));
    slice.count = GYRE_EARLY_BYTES / slice.element;
    assert_false(gyre_slice_looks_ahead(&slice, 1));
}

static void only_long_receives_are_early(void **state)
{
    (void)state;
    const struct gyre_slice slice = slice_of(GYRE_VERB_ALL_REDUCE, false);
    const struct gyre_step send = {.kind = GYRE_SEND, .length = LONG};
    struct gyre_round round;
    make(&round);
    assert_true(admits(&slice, &round, gyre_at(GYRE_OUTPUT, 0), LONG));
    assert_false(admits(&slice, &round, gyre_at(GYRE_OUTPUT, 0), GYRE_EARLY_BYTES));
    assert_false(gyre_round_admits(&slice, &round, &send));
    gyre_round_deinit(&round);
}

static void what_the_round_uses_is_not_written(void **state)
{
    (void)state;
    const struct gyre_slice slice = slice_of(GYRE_VERB_ALL_REDUCE, false);
    const struct gyre_place free_place = gyre_at(GYRE_SCRATCH, 8 * LONG);
    struct gyre_round round;
    make(&round);
    gyre_round_send(&round, 0, gyre_at(GYRE_SCRATCH, 0), LONG);
    gyre_round_recv(&round, 2, gyre_at(GYRE_SCRATCH, LONG), LONG);
    gyre_round_reduce(&round, gyre_at(GYRE_SCRATCH, 2 * LONG), LONG, 0);
    gyre_round_source(&round, gyre_at(GYRE_SCRATCH, 3 * LONG));
    gyre_round_source(&round, gyre_at(GYRE_SCRATCH, 4 * LONG));
    for (uint64_t i = 0; i < 5; i++) {
        assert_false(admits(&slice, &round, gyre_at(GYRE_SCRATCH, i * LONG), LONG));
        assert_true(admits(&slice, &round, gyre_at(GYRE_OUTPUT, i * LONG), LONG));
    }
    assert_false(admits(&slice, &round, gyre_at(GYRE_SCRATCH, 5 * LONG - 1), LONG));
    assert_true(admits(&slice, &round, gyre_at(GYRE_SCRATCH, 5 * LONG), LONG));
    assert_true(admits(&slice, &round, free_place, LONG));
    gyre_round_deinit(&round);
}

static void in_place_input_and_output_are_one_memory(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct gyre_slice slice = slice_of(GYRE_VERB_ALL_REDUCE, in_place);
        struct gyre_round round;
        make(&round);
        gyre_round_send(&round, 0, gyre_at(GYRE_INPUT, LONG), LONG);
        assert_int_equal(admits(&slice, &round, gyre_at(GYRE_OUTPUT, LONG), LONG), !in_place);
        assert_true(admits(&slice, &round, gyre_at(GYRE_OUTPUT, 0), LONG));
        assert_true(admits(&slice, &round, gyre_at(GYRE_SCRATCH, LONG), LONG));
        gyre_round_deinit(&round);
    }
}

/* In an all-gather in place INPUT is block 1 of OUTPUT, on rank 1. */
static void in_place_a_block_lies_where_it_belongs(void **state)
{
    (void)state;
    const struct gyre_slice slice = slice_of(GYRE_VERB_ALL_GATHER, true);
    struct gyre_round round;
    make(&round);
    gyre_round_send(&round, 0, gyre_at(GYRE_INPUT, 0), LONG);
    assert_true(admits(&slice, &round, gyre_at(GYRE_OUTPUT, 0), LONG));
    assert_false(admits(&slice, &round, gyre_at(GYRE_OUTPUT, LONG), LONG));
    assert_true(admits(&slice, &round, gyre_at(GYRE_OUTPUT, 2 * LONG), LONG));
    gyre_round_deinit(&round);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_single_long_slice_looks_ahead),
        cmocka_unit_test(only_long_receives_are_early),
        cmocka_unit_test(what_the_round_uses_is_not_written),
        cmocka_unit_test(in_place_input_and_output_are_one_memory),
        cmocka_unit_test(in_place_a_block_lies_where_it_belongs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
