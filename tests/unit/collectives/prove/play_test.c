/* The second proof: schedules played on numbers, with real buffers, in place on some ranks and not
 * on others, in the given and in random order; and the player's own complaints. */
#include "rig/haste.h"

#include "collectives/algorithms/table.h"
#include "collectives/prove/play.h"
#include "rig/test.h"

#include <string.h>

/* Divisible by every n up to 9, so that an average is exact; different for every rank and element.
 */
static int64_t input(uint32_t rank, uint64_t element)
{
    return 2520 * ((int64_t)(rank + 1) * 100003 + (int64_t)element * (rank + 3));
}

/* Of all ranks, in one step. */
static int64_t sum_of_inputs(int64_t n, uint64_t element)
{
    return 2520 * (n * (n + 1) / 2 * 100003 + (int64_t)element * (n * (n - 1) / 2 + 3 * n));
}

/* The table once more, for blocks of equal length. */
static int64_t expected(const struct gyre_slice *s, bool average, uint32_t block, uint64_t element)
{
    uint64_t mine = s->rank * s->stride + element;
    int64_t total;
    switch (s->verb) {
    case GYRE_VERB_BROADCAST:
        return input(s->root, element);
    case GYRE_VERB_SCATTER:
        return input(s->root, mine);
    case GYRE_VERB_ALL_TO_ALL:
        return input(block, mine);
    case GYRE_VERB_ALL_GATHER:
    case GYRE_VERB_GATHER:
        return input(block, element);
    default:
        total = sum_of_inputs(s->n, s->verb == GYRE_VERB_REDUCE_SCATTER ? mine : element);
        return average ? total / s->n : total;
    }
}

/* Every element; the player's own table, which adds all ranks up for each, at the first and at
 * every 61st. */
static void expect_output(const struct gyre_play *play, const struct gyre_player *player,
                          uint32_t block)
{
    const struct gyre_slice *s = &player->slice;
    struct gyre_span span = gyre_slice_block(s, GYRE_OUTPUT, block);
    const int64_t *got = player->buffer[GYRE_OUTPUT] + span.at / s->element;
    for (uint64_t i = 0; i < span.bytes / s->element; i++) {
        int64_t right = expected(s, play->options.average, block, i);
        if (got[i] != right ||
            ((i < 64 || i % 61 == 0) && gyre_play_expected(play, s->rank, block, i) != right))
            fail_msg("%s %s, n = %u, count = %llu: rank %u, block %u, element %llu is %lld, not "
                     "%lld, or the player wants %lld",
                     play->algorithm->name, gyre_verb_word[s->verb], s->n,
                     (unsigned long long)s->count, s->rank, block, (unsigned long long)i,
                     (long long)got[i], (long long)right,
                     (long long)gyre_play_expected(play, s->rank, block, i));
    }
}

static void expect_result(const struct gyre_play *play)
{
    for (uint32_t rank = 0; rank < play->n; rank++) {
        const struct gyre_player *player = &play->player[rank];
        const struct gyre_slice *s = &player->slice;
        const int64_t *given = player->buffer[GYRE_INPUT];
        uint64_t i = 0;
        for (uint32_t block = 0; block < gyre_slice_blocks(s, GYRE_OUTPUT); block++)
            expect_output(play, player, block);
        while (!s->in_place && i < player->count[GYRE_INPUT] &&
               (given[i] == input(rank, i) ||
                (s->stride > s->count && given[i] == GYRE_PLAY_UNDEFINED)))
            i++;
        assert_true(s->in_place || i == player->count[GYRE_INPUT]);
    }
}

static void play_all(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                     const struct gyre_play_options *options)
{
    struct gyre_play play;
    struct gyre_trouble trouble = {0};
    if (!gyre_algorithm_builds(algorithm, slice))
        return;
    assert_int_equal(gyre_play_init(&play, algorithm, slice, options), 0);
    while (play.round < play.rounds)
        if (gyre_play_round(&play, &trouble) != 0)
            fail_msg("%s: %s", algorithm->name, trouble.text);
    expect_result(&play);
    gyre_play_deinit(&play);
}

static void play_every_way(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    static const enum gyre_play_in_place in_place[] = {GYRE_PLAY_NOBODY, GYRE_PLAY_ODD_RANKS,
                                                       GYRE_PLAY_EVERYBODY};
    static const uint64_t counts[] = {0, 1, 4, 23, 1031, 40009};
    const size_t most = sizeof counts / sizeof *counts - in_haste();
    const uint64_t seeds = in_haste() ? 2 : 4;
    for (size_t i = 0; i < 3 * most; i++)
        for (uint64_t seed = 0; seed < (counts[i / 3] < 2000 ? seeds : 1); seed++) {
            struct gyre_play_options options = {seed % 2 == 1, in_place[i % 3], input, seed};
            slice.count = counts[i / 3];
            slice.stride = slice.count + 7 * (seed / 2);
            slice.first = seed;
            play_all(algorithm, &slice, &options);
        }
}

static void test_every_algorithm(void **state)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned verb = 0; verb < GYRE_VERBS; verb++)
            for (uint32_t n = 1; n <= 9; n += in_haste() && n > 2 ? 2 : 1)
                play_every_way(*it,
                               (struct gyre_slice){.verb = verb,
                                                   .n = n,
                                                   .root = gyre_verb_has_root(verb) ? n / 2 : 0,
                                                   .element = 4});
}

static void test_many_ranks(void **state)
{
    static const uint32_t ns[] = {33, 64, 67};
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned i = 0; i < 3 * GYRE_VERBS; i++) {
            struct gyre_play_options options = {false, GYRE_PLAY_ODD_RANKS, input, i};
            struct gyre_slice slice = {
                .verb = i / 3, .n = ns[i % 3], .element = 4, .count = 1100, .stride = 1100};
            play_all(*it, &slice, &options);
        }
}

/* -- schedules that do not play ---------------------------------------------------------------- */

enum flaw { LOST_RECV, LOST_SEND, OTHER_LENGTH, TOO_LONG };
static enum flaw flaw;

static struct gyre_extent one_round(const struct gyre_slice *s)
{
    return (struct gyre_extent){1, 0, 2, 2};
}

static void flawed(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t length = flaw == TOO_LONG ? 16 : 8;
    if (s->rank == 0 && flaw != LOST_SEND)
        gyre_round_send(round, 1, gyre_at(GYRE_INPUT, 0), length);
    if (s->rank == 1 && flaw != LOST_RECV)
        gyre_round_recv(round, 0, gyre_at(GYRE_OUTPUT, 0), flaw == OTHER_LENGTH ? 4 : length);
}

static void test_complaints(void **state)
{
    const struct gyre_algorithm algorithm = {
        .name = "flawed", .extent = one_round, .round = flawed};
    const struct gyre_slice slice = {.verb = GYRE_VERB_BROADCAST, .n = 2, .element = 4, .count = 2};
    for (flaw = LOST_RECV; flaw <= TOO_LONG; flaw++) {
        struct gyre_play play;
        struct gyre_trouble trouble = {0};
        assert_int_equal(gyre_play_init(&play, &algorithm, &slice, NULL), 0);
        assert_int_equal(gyre_play_round(&play, &trouble), GYRE_INVALID);
        assert_int_equal(trouble.status, GYRE_INVALID);
        gyre_play_deinit(&play);
    }
}

static void test_a_wrong_element_is_told(void **state)
{
    const struct gyre_slice slice = {
        .verb = GYRE_VERB_ALL_REDUCE, .n = 3, .element = 4, .count = 4, .stride = 4};
    struct gyre_play play;
    struct gyre_trouble trouble = {0};
    assert_int_equal(gyre_play_init(&play, gyre_algorithm_find("ring"), &slice, NULL), 0);
    while (play.round < play.rounds)
        assert_int_equal(gyre_play_round(&play, &trouble), 0);
    assert_int_equal(gyre_play_check(&play, &trouble), 0);
    play.player[1].buffer[GYRE_OUTPUT][2]++;
    assert_int_equal(gyre_play_check(&play, &trouble), GYRE_CORRUPT);
    assert_non_null(strstr(trouble.text, "rank 1 ends with 607 in element 2, not 606"));
    gyre_play_deinit(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_complaints),
        cmocka_unit_test(test_a_wrong_element_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
