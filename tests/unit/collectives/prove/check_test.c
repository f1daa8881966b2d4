/* The checker is checked: each real schedule is spoiled in one place, at every place and in some
 * thirty ways, and the checker must object every time; where it does not, the player must show that
 * nothing was spoiled, and that may not happen often. A spoiled schedule is the real one behind a
 * wrapper that changes one step of one rank (or both ends of one message, or the order of two
 * rounds, or what the extent promises). In haste one count at each number of ranks, and at 8 ranks
 * a third of the places. */
#include "collectives/algorithms/table.h"
#include "unit/collectives/prove/check_spoil.h"
#include "rig/haste.h"

#include "collectives/prove/check.h"
#include "collectives/schedule/layout.h"
#include "collectives/prove/play.h"
#include "rig/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct spoil_way *mutation;
static struct {
    uint32_t rank, step;
    uint64_t index;
} target;
static uint32_t partner; /* the other end of the target, for `both` */

/* -- the wrapper ------------------------------------------------------------------------------- */

static struct gyre_extent spoiled_extent(const struct gyre_slice *slice)
{
    struct gyre_extent extent = spoil_real->extent(slice);
    extent.step_max += 2;
    extent.source_max += 2;
    return extent;
}

static uint32_t find_message(const struct gyre_round *round, enum gyre_step_kind kind,
                             uint32_t peer)
{
    uint32_t at = 0;
    while (round->step[at].kind != kind || round->step[at].peer != peer)
        at++;
    return at;
}

/* Adds the target step to a round that it does not belong to. */
static void add_target(const struct gyre_slice *slice, struct gyre_round *round)
{
    struct gyre_step step[SPOIL_ROOM];
    struct gyre_place source[SPOIL_ROOM];
    struct gyre_round home = {step, source, 0, SPOIL_ROOM, 0, SPOIL_ROOM, false};
    spoil_real->round(slice, target.index, &home);
    if (target.step >= home.steps)
        return;
    struct gyre_step moved = step[target.step];
    memcpy(&round->source[round->sources], &source[moved.first], moved.sources * sizeof *source);
    moved.first = round->sources;
    round->sources += moved.sources;
    round->step[round->steps++] = moved;
}

static void spoil_rounds(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round)
{
    if (mutation->swap && (index == target.index || index == target.index + 1))
        index = 2 * target.index + 1 - index;
    spoil_real->round(slice, index, round);
    if (mutation->move != 0 && index == target.index && target.step < round->steps)
        spoil_drop(slice, index, round, target.step);
    if (mutation->move != 0 && index == target.index + (uint64_t)mutation->move)
        add_target(slice, round);
}

static void spoiled_round(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round)
{
    bool here = slice->rank == target.rank;
    if (here && (mutation->move != 0 || mutation->swap)) {
        spoil_rounds(slice, index, round);
        return;
    }
    spoil_real->round(slice, index, round);
    if (here && index == target.index && target.step < round->steps)
        mutation->change(slice, index, round, target.step);
    else if (mutation->both && slice->rank == partner && index == target.index)
        mutation->change(slice, index, round, find_message(round, GYRE_RECV, target.rank));
}

static uint64_t real_sent_bytes(const struct gyre_slice *slice)
{
    return spoil_real->sent_bytes(slice);
}

/* -- every mutation at every place ------------------------------------------------------------- */

/* Does the mutation apply to the target, and spoil something there? Sets the partner. */
static bool applies(const struct gyre_slice *slice, uint64_t rounds)
{
    struct gyre_step step[SPOIL_ROOM], before;
    struct gyre_place source[SPOIL_ROOM];
    struct gyre_round round = {step, source, 0, SPOIL_ROOM, 0, SPOIL_ROOM, false};
    if (mutation->swap && (target.step != 0 || target.index + 1 == rounds))
        return false;
    if (mutation->move == -1 && target.index == 0)
        return false;
    spoil_real->round(slice, target.index, &round);
    before = step[target.step];
    partner = before.peer;
    if (mutation->both && before.kind != GYRE_SEND)
        return false;
    return mutation->change(slice, target.index, &round, target.step);
}

static uint32_t steps_of(const struct gyre_slice *slice, uint64_t index)
{
    struct gyre_step step[SPOIL_ROOM];
    struct gyre_place source[SPOIL_ROOM];
    struct gyre_round round = {step, source, 0, SPOIL_ROOM, 0, SPOIL_ROOM, false};
    spoil_real->round(slice, index, &round);
    assert_false(round.overflow);
    return round.steps;
}

/* What the checker accepts must do no harm: the player, which shares nothing with it, comes to the
 * right numbers whoever works in place and in whatever order. */
static bool plays_right(const struct gyre_algorithm *spoiled, const struct gyre_slice *slice)
{
    static const enum gyre_play_in_place in_place[] = {GYRE_PLAY_NOBODY, GYRE_PLAY_ODD_RANKS,
                                                       GYRE_PLAY_EVERYBODY};
    const uint64_t step = in_haste() ? 5 : 1; /* each of the three once */
    bool right = true;
    for (uint64_t i = 0; right && i < 12; i += step) {
        struct gyre_play_options options = {.in_place = in_place[i % 3], .seed = i / 3};
        struct gyre_play play;
        struct gyre_trouble trouble = {0};
        int status = gyre_play_init(&play, spoiled, slice, &options);
        while (status == 0 && play.round < play.rounds)
            status = gyre_play_round(&play, &trouble);
        right = status == 0 && gyre_play_check(&play, NULL) == 0;
        gyre_play_deinit(&play);
    }
    return right;
}

/* True if the checker objects, as it has to where anything is spoiled. */
static bool is_caught(const struct gyre_slice *slice)
{
    struct gyre_trouble trouble = {0};
    struct gyre_algorithm spoiled = *spoil_real;
    spoiled.extent = spoiled_extent;
    spoiled.round = spoiled_round;
    spoiled.sent_bytes = real_sent_bytes;
    if (gyre_check_schedule(&spoiled, slice, &trouble) == 0) {
        if (plays_right(&spoiled, slice))
            return false;
        fail_msg("%s %s n = %u count = %" PRIu64 ": '%s' at rank %u, round %" PRIu64
                 ", step %u was not caught",
                 spoil_real->name, gyre_verb_word[slice->verb], slice->n, slice->count,
                 mutation->name, target.rank, target.index, target.step);
    }
    assert_non_null(strstr(trouble.text, spoil_real->name));
    if (mutation->both) /* the content itself must give it away */
        assert_null(strstr(trouble.text, "sent_bytes"));
    return true;
}

static bool left_out(const struct gyre_slice *slice)
{
    return in_haste() && slice->n > 5 && (target.rank + target.index + target.step) % 3 != 0;
}

/* Returns at how many places the mutation spoils this schedule, and counts those where it does not.
 */
static unsigned spoil_everywhere(struct gyre_slice slice, unsigned *harmless)
{
    unsigned places = 0;
    uint64_t rounds = spoil_real->extent(&slice).rounds;
    for (slice.rank = target.rank = 0; target.rank < slice.n; slice.rank = ++target.rank)
        for (target.index = 0; target.index < rounds; target.index++) {
            uint32_t steps = steps_of(&slice, target.index);
            for (target.step = 0; target.step < steps; target.step++)
                if (!left_out(&slice) && applies(&slice, rounds)) {
                    bool caught = is_caught(&slice);
                    places += caught;
                    *harmless += !caught;
                }
        }
    return places;
}

static void spoil(struct gyre_slice slice)
{
    unsigned kinds = 0, places = 0, harmless = 0;
    for (size_t i = 0; i < spoil_ways_count; i++) {
        mutation = &spoil_ways[i];
        unsigned here = spoil_everywhere(slice, &harmless);
        kinds += here > 0;
        places += here;
    }
    print_message("%s %s n = %u count = %" PRIu64 ": %u kinds, %u places, %u harmless\n",
                  spoil_real->name, gyre_verb_word[slice.verb], slice.n, slice.count, kinds, places,
                  harmless);
    assert_true(kinds >= 20);
    assert_true(harmless <= places / 20);
}

static void test_mutations(void **state)
{
    static const uint32_t ns[] = {3, 5, 8};
    static const uint64_t counts[] = {23, 5003, 40009}; /* one-shot, two-shot, segments */
    const size_t step = in_haste() ? 4 : 1;
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned verb = 0; verb < GYRE_VERBS; verb++)
            for (size_t i = 0; ((*it)->verbs >> verb & 1) != 0 && i < 9; i += step) {
                spoil_real = *it;
                for (int in_place = 0; in_place <= (verb == GYRE_VERB_ALL_TO_ALL); in_place++)
                    spoil((struct gyre_slice){.verb = verb,
                                              .in_place = in_place,
                                              .n = ns[i / 3],
                                              .root = gyre_verb_has_root(verb) ? ns[i / 3] / 2 : 0,
                                              .element = 4,
                                              .stride = counts[i % 3],
                                              .count = counts[i % 3]});
            }
}

/* On two nodes, five ranks dealt over them in turn. */
static void test_mutations_on_nodes(void **state)
{
    static const uint32_t node[] = {0, 1, 0, 1, 0};
    struct gyre_layout *layout;
    assert_int_equal(gyre_layout_create(node, 5, &layout, NULL), 0);
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++) {
        struct gyre_slice slice = {.n = 5, .element = 4, .count = 5003, .layout = layout};
        spoil_real = *it;
        if (gyre_algorithm_builds(spoil_real, &slice))
            spoil(slice);
    }
    gyre_layout_destroy(layout);
}

/* Without the promise of rank order, one rank that adds in another order than the rest is still
 * found. */
static void test_one_bracketing_everywhere(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_slice slice = {.verb = GYRE_VERB_ALL_REDUCE, .n = 5, .element = 4, .count = 23};
    static const struct spoil_way swap = {"swap sources", spoil_swap_sources};
    struct gyre_algorithm loose = *gyre_algorithm_find("direct");
    spoil_real = gyre_algorithm_find("direct");
    mutation = &swap;
    target.rank = 3, target.index = 1, target.step = 0;
    loose.round = spoiled_round;
    loose.rank_order = false;
    assert_int_equal(gyre_check_schedule(&loose, &slice, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "bracketed otherwise than on rank 0"));
}

/* The chain's partial sums are rounded where the accumulator is wider than the element: it says
 * that this does not suit it, and would be caught if it did not. */
static void test_narrow_partial_sums(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_slice slice = {
        .verb = GYRE_VERB_ALL_REDUCE, .n = 5, .element = 2, .count = 23, .rounds_partials = true};
    struct gyre_algorithm careless = *gyre_algorithm_find("chain");
    assert_false(gyre_algorithm_builds(&careless, &slice));
    assert_int_equal(gyre_check_schedule(&careless, &slice, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "does not build"));
    careless.suits = NULL;
    trouble = (struct gyre_trouble){0};
    assert_int_equal(gyre_check_schedule(&careless, &slice, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "not summed in rank order"));
    assert_int_equal(gyre_check_schedule(gyre_algorithm_find("direct"), &slice, &trouble), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_mutations_on_nodes),
        cmocka_unit_test(test_one_bracketing_everywhere),
        cmocka_unit_test(test_narrow_partial_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
