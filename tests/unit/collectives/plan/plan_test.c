/* Plans: which form a schedule takes, how an operation is cut, and what the binder refuses. */
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithms/table.h"
#include "collectives/plan/plan.h"
#include "collectives/plan/question.h"
#include "rig/test.h"

static struct gyre_plan *make(const char *algorithm, enum gyre_verb verb, uint32_t n, uint32_t rank,
                              uint64_t count, bool mapped)
{
    struct gyre_shape shape = {.verb = verb, .type = GYRE_F32, .count = count};
    struct gyre_plan_options options = {
        .n = n, .rank = rank, .mapped = mapped, .algorithm = gyre_algorithm_find(algorithm)};
    struct gyre_trouble trouble = {0};
    struct gyre_plan *plan = NULL;
    if (gyre_plan_create(&shape, &options, &plan, &trouble))
        fail_msg("%s", trouble.text);
    return plan;
}

static enum gyre_plan_form form(const char *algorithm, enum gyre_verb verb, uint32_t n,
                                uint64_t count, bool mapped)
{
    struct gyre_plan *plan = make(algorithm, verb, n, 0, count, mapped);
    enum gyre_plan_form found = plan->form;
    gyre_plan_destroy(plan);
    return found;
}

static void direct_is_fused_on_shared_memory(void **state)
{
    for (uint32_t n = 2; n <= 16; n++)
        for (int verb = 0; verb <= GYRE_VERB_BROADCAST; verb++) {
            assert_int_equal(form("direct", verb, n, 0, true), GYRE_FORM_EXCHANGE);
            assert_int_equal(form("direct", verb, n, 1024, true), GYRE_FORM_EXCHANGE);
            assert_int_equal(form("direct", verb, n, 1025, true), GYRE_FORM_PUSH);
            assert_int_equal(form("direct", verb, n, 10000019, true), GYRE_FORM_PUSH);
            assert_int_equal(form("direct", verb, n, 1024, false), GYRE_FORM_STEPS);
        }
}

/* A graph's launches have no turns, and so no lines. */
static void graphs_push_what_is_short(void **state)
{
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_REDUCE, .count = 2, .in_graph = true};
    const struct gyre_plan_options options = {
        .n = 2, .mapped = true, .algorithm = gyre_algorithm_find("direct")};
    struct gyre_trouble trouble = {0};
    struct gyre_plan *plan;
    (void)state;
    assert_int_equal(gyre_plan_create(&shape, &options, &plan, &trouble), 0);
    assert_int_equal(plan->form, GYRE_FORM_PUSH);
    gyre_plan_destroy(plan);
    shape.in_graph = false;
    assert_int_equal(gyre_plan_create(&shape, &options, &plan, &trouble), 0);
    assert_int_equal(plan->form, GYRE_FORM_EXCHANGE);
    gyre_plan_destroy(plan);
}

/* A rank's INPUT of up to 4 KiB in all blocks travels in the line; more is pushed. */
static void verbs_with_blocks_are_fused(void **state)
{
    for (uint32_t n = 2; n <= 16; n++)
        for (enum gyre_verb verb = GYRE_VERB_REDUCE; verb < GYRE_VERBS; verb++) {
            uint64_t fits = gyre_verb_scatters(verb) ? 1024 / n : 1024;
            assert_int_equal(form("direct", verb, n, 0, true), GYRE_FORM_EXCHANGE);
            assert_int_equal(form("direct", verb, n, fits, true), GYRE_FORM_EXCHANGE);
            assert_int_equal(form("direct", verb, n, fits + 1, true), GYRE_FORM_PUSH);
            assert_int_equal(form("direct", verb, n, 1000003, true), GYRE_FORM_PUSH);
            assert_int_equal(form("direct", verb, n, 1024, false), GYRE_FORM_STEPS);
        }
}

/* Only an all-to-all overwrites what others have still to read. */
static void only_all_to_all_stages_in_place(void **state)
{
    for (uint32_t n = 2; n <= 9; n++)
        for (enum gyre_verb verb = GYRE_VERB_ALL_REDUCE; verb < GYRE_VERBS; verb++) {
            struct gyre_plan *plan = make("direct", verb, n, 0, 100003, true);
            assert_int_equal(plan->form, GYRE_FORM_PUSH);
            assert_int_equal(plan->push.stage_in_place, verb == GYRE_VERB_ALL_TO_ALL);
            gyre_plan_destroy(plan);
        }
}

/* Sums take the place of the inputs that they were read from; blocks would land on others. */
static void single_blocks_stage_in_the_inbox(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 9; n++)
        for (enum gyre_verb verb = GYRE_VERB_ALL_REDUCE; verb < GYRE_VERBS; verb++) {
            struct gyre_plan *plan = make("direct", verb, n, 0, 100003, true);
            assert_int_equal(plan->push.stage_in_inbox,
                             verb == GYRE_VERB_ALL_REDUCE || verb == GYRE_VERB_REDUCE);
            gyre_plan_destroy(plan);
        }
}

/* What goes through a stage or an outbox: never what only its own rank uses. */
static void own_blocks_are_not_staged(void **state)
{
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct gyre_plan *plan = make("direct", GYRE_VERB_REDUCE_SCATTER, 4, rank, 5000, true);
        assert_int_equal(plan->push.full->reads, 3);
        assert_int_equal(plan->push.full->writes, 0);
        for (uint32_t p = 0; p < 3; p++)
            assert_int_not_equal(plan->push.full->read[p].block, rank);
        gyre_plan_destroy(plan);
        plan = make("direct", GYRE_VERB_GATHER, 4, rank, 5000, true);
        assert_int_equal(plan->push.written_by_peers, rank == 0);
        assert_int_equal(plan->push.read_by_peers, 0); /* the senders copy */
        gyre_plan_destroy(plan);
    }
}

/* A slice of all blocks fits the stage. */
static void slices_of_blocks_fit_the_stage(void **state)
{
    for (uint32_t n = 2; n <= 64; n *= 2)
        for (enum gyre_verb verb = GYRE_VERB_REDUCE; verb < GYRE_VERBS; verb++) {
            struct gyre_plan *plan = make("direct", verb, n, 0, 1000003, true);
            uint64_t last = gyre_plan_slice_count(plan, plan->slices - 1) * plan->element;
            bool blocks = gyre_verb_gathers(verb) || gyre_verb_scatters(verb);
            assert_true((blocks ? n : 1) * last <= GYRE_STAGE_BYTES);
            gyre_plan_destroy(plan);
        }
}

/* The tables of a shape are the caller's and may change; a plan has its own, and finds itself. */
static void unequal_blocks_are_part_of_the_shape(void **state)
{
    uint64_t count[3] = {5, 0, 7}, at[3] = {0, 5, 5}, other[3] = {5, 0, 8};
    struct gyre_shape shape = {
        .verb = GYRE_VERB_ALL_GATHER, .type = GYRE_F32, .count = 7, .blocks = {NULL, count}};
    struct gyre_plan_options options = {.n = 3, .mapped = true};
    struct gyre_plan *plan, *second;
    assert_int_equal(gyre_plan_create(&shape, &options, &plan, NULL), 0);
    assert_int_equal(plan->blocks.at[2], 5);
    assert_true(gyre_shape_same(&plan->shape, &shape, 3));
    shape.blocks.at = at;
    assert_int_equal(gyre_plan_create(&shape, &options, &second, NULL), 0);
    assert_int_equal(plan->fingerprint, second->fingerprint); /* the same places */
    gyre_plan_destroy(second);
    shape.blocks.count = other;
    assert_false(gyre_shape_same(&plan->shape, &shape, 3));
    assert_int_equal(gyre_plan_create(&shape, &options, &second, NULL), 0);
    assert_int_not_equal(plan->fingerprint, second->fingerprint);
    gyre_plan_destroy(second);
    memset(count, 0xff, sizeof(count));
    assert_int_equal(plan->blocks.count[0], 5);
    gyre_plan_destroy(plan);
}

static struct gyre_plan *make_cut(uint64_t slice_bytes, bool mapped)
{
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_F32, .count = 100000};
    struct gyre_plan_options options = {.n = 2,
                                        .mapped = mapped,
                                        .slice_bytes = slice_bytes,
                                        .algorithm = gyre_algorithm_find("direct")};
    struct gyre_plan *plan = NULL;
    assert_int_equal(gyre_plan_create(&shape, &options, &plan, NULL), 0);
    return plan;
}

/* Ranks that cut alike and go one way know each other by the fingerprint; others must not. */
static void slice_and_form_are_part_of_the_fingerprint(void **state)
{
    struct gyre_plan *plan = make_cut(65536, true), *same = make_cut(65536, true),
                     *longer = make_cut(131072, true), *steps = make_cut(65536, false);
    assert_int_equal(plan->fingerprint, same->fingerprint);
    assert_int_equal(plan->form, longer->form);
    assert_int_not_equal(plan->slice_count, longer->slice_count);
    assert_int_not_equal(plan->fingerprint, longer->fingerprint);
    assert_int_equal(plan->slice_count, steps->slice_count);
    assert_int_not_equal(plan->form, steps->form);
    assert_int_not_equal(plan->fingerprint, steps->fingerprint);
    gyre_plan_destroy(plan);
    gyre_plan_destroy(same);
    gyre_plan_destroy(longer);
    gyre_plan_destroy(steps);
}

/* Partial sums that travel on cannot be skipped. */
static void schedules_that_pass_sums_on_stay_steps(void **state)
{
    static const char *const names[] = {"ring", "tree", "doubling"};
    for (size_t i = 0; i < 3; i++)
        for (uint32_t n = 3; n <= 9; n++) {
            assert_int_equal(form(names[i], GYRE_VERB_ALL_REDUCE, n, 100, true), GYRE_FORM_STEPS);
            assert_int_equal(form(names[i], GYRE_VERB_ALL_REDUCE, n, 100000, true),
                             GYRE_FORM_STEPS);
        }
}

static void slices_cover_everything(void **state)
{
    static const uint64_t counts[] = {
        0, 1, 65535, 65536, 131071, 131072, 131073, 10000019, UINT64_C(5) << 32};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int mapped = 0; mapped < 2; mapped++) {
            struct gyre_plan *plan = make("direct", GYRE_VERB_ALL_REDUCE, 2, 0, counts[i], mapped);
            uint64_t last = gyre_plan_slice_count(plan, plan->slices - 1);
            assert_true(plan->slices >= 1);
            assert_true((plan->slices - 1) * plan->slice_count + last == counts[i]);
            assert_true(last >= plan->slice_count || plan->slices == 1);
            assert_true(!mapped || last * plan->element <= GYRE_STAGE_BYTES);
            gyre_plan_destroy(plan);
        }
}

/* Marks what one rank's moves write, in everybody's OUTPUT. */
static void mark(const struct gyre_plan *plan, uint32_t n, uint8_t *const *written)
{
    bool reduces = gyre_verb_reduces(plan->shape.verb);
    const struct gyre_rank_moves *own =
        plan->form == GYRE_FORM_EXCHANGE ? plan->exchange.moves : plan->push.full;
    for (uint32_t m = 0; m < own->moves; m++) {
        const struct gyre_move *move = &own->move[m];
        assert_int_equal(move->sources, reduces ? n : 1);
        for (uint32_t s = 0; s < move->sources && reduces; s++)
            assert_int_equal(move->source[s].rank, s); /* in rank order */
        for (uint32_t d = 0; d < move->destinations; d++) {
            struct gyre_block_ref ref = move->destination[d];
            uint64_t at = gyre_plan_block_at(plan, ref.block) + ref.offset;
            for (uint64_t b = 0; b < move->length; b++)
                written[ref.rank][at + b]++;
        }
    }
}

/* Every byte of every output is written exactly once, by a fold of all inputs where there is one.
 */
static void moves_cover_every_output_once(void **state)
{
    enum { COUNT = 2500 };
    for (uint32_t n = 2; n <= 9; n++)
        for (enum gyre_verb verb = GYRE_VERB_ALL_REDUCE; verb < GYRE_VERBS; verb++) {
            struct gyre_shape shape = {.verb = verb, .type = GYRE_F32, .count = COUNT};
            uint8_t *written[9];
            for (uint32_t rank = 0; rank < n; rank++)
                written[rank] = calloc(9, 4 * COUNT);
            for (uint32_t rank = 0; rank < n; rank++) {
                struct gyre_plan *plan = make("direct", verb, n, rank, COUNT, true);
                mark(plan, n, written);
                gyre_plan_destroy(plan);
            }
            for (uint32_t rank = 0; rank < n; rank++) {
                uint64_t bytes = gyre_shape_output_bytes(&shape, n, rank);
                for (size_t b = 0; b < 9 * 4 * COUNT; b++)
                    assert_int_equal(written[rank][b], b < bytes);
                free(written[rank]);
            }
        }
}

/* A schedule that is right over messages, but in which rank 0 would overwrite rank 1's input while
 * rank 2 may still read it, if both ran in place: everybody gives all to everybody, twice over. */
static struct gyre_extent crossed_extent(const struct gyre_slice *s)
{
    return (struct gyre_extent){3, s->count * s->element * s->n, 2 * s->n, s->n};
}

static void crossed_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t bytes = s->count * s->element;
    uint32_t owner = 0; /* sums everything and gives it to all, who also read all of each other */
    for (uint32_t p = 0; p < s->n; p++) {
        if (p == s->rank)
            continue;
        if (index == 0) {
            gyre_round_recv(round, p, gyre_at(GYRE_SCRATCH, p * bytes), bytes);
            gyre_round_send(round, p, gyre_at(GYRE_INPUT, 0), bytes);
        } else if (index == 2 && s->rank == owner) {
            gyre_round_send(round, p, gyre_at(GYRE_OUTPUT, 0), bytes);
        } else if (index == 2 && p == owner) {
            gyre_round_recv(round, p, gyre_at(GYRE_OUTPUT, 0), bytes);
        }
    }
    if (index == 1) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), bytes, GYRE_STEP_FINAL);
        for (uint32_t p = 0; p < s->n; p++)
            gyre_round_source(round, p == s->rank ? gyre_at(GYRE_INPUT, 0)
                                                  : gyre_at(GYRE_SCRATCH, p * bytes));
    }
}

static void unsafe_shortcuts_are_refused(void **state)
{
    const struct gyre_algorithm crossed = {
        .name = "crossed", .extent = crossed_extent, .round = crossed_round};
    struct gyre_slice slice = {.n = 3, .element = 4, .count = 5000};
    struct gyre_binding binding = {.safe_in_place = true, .stays_at_home = true};
    struct gyre_rank_moves *fused =
        gyre_bind_rank_moves(&crossed, &slice, GYRE_RECEIVER_COPIES, &binding);
    assert_non_null(fused);
    assert_false(binding.stays_at_home);
    assert_false(binding.safe_in_place);
    free(fused);
}

static void options_are_capped(void **state)
{
    struct gyre_shape shape = {.count = 1 << 24};
    struct gyre_plan_options options = {.n = 2, .mapped = true, .slice_bytes = 1 << 30};
    struct gyre_choice choice;
    assert_int_equal(gyre_select(&shape, &options, &choice, NULL), 0);
    assert_int_equal(choice.slice_bytes, GYRE_STAGE_BYTES / 2);
    options.mapped = false;
    assert_int_equal(gyre_select(&shape, &options, &choice, NULL), 0);
    assert_int_equal(choice.slice_bytes, 1 << 30);
}

static void verbs_that_are_missing_are_told(void **state)
{
    struct gyre_shape shape = {.verb = GYRE_VERB_BROADCAST, .count = 10};
    struct gyre_plan_options options = {.n = 4, .algorithm = gyre_algorithm_find("doubling")};
    struct gyre_trouble trouble = {0};
    struct gyre_plan *plan = NULL;
    assert_int_equal(gyre_plan_create(&shape, &options, &plan, &trouble), GYRE_INVALID);
    assert_null(plan);
    assert_non_null(strstr(trouble.text, "doubling"));
    assert_non_null(strstr(trouble.text, "broadcast"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_is_fused_on_shared_memory),
        cmocka_unit_test(graphs_push_what_is_short),
        cmocka_unit_test(verbs_with_blocks_are_fused),
        cmocka_unit_test(only_all_to_all_stages_in_place),
        cmocka_unit_test(single_blocks_stage_in_the_inbox),
        cmocka_unit_test(own_blocks_are_not_staged),
        cmocka_unit_test(slices_of_blocks_fit_the_stage),
        cmocka_unit_test(unequal_blocks_are_part_of_the_shape),
        cmocka_unit_test(slice_and_form_are_part_of_the_fingerprint),
        cmocka_unit_test(schedules_that_pass_sums_on_stay_steps),
        cmocka_unit_test(slices_cover_everything),
        cmocka_unit_test(moves_cover_every_output_once),
        cmocka_unit_test(unsafe_shortcuts_are_refused),
        cmocka_unit_test(options_are_capped),
        cmocka_unit_test(verbs_that_are_missing_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
