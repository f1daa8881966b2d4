/* When moves may run in place: every way in which what one move writes can lie to what another one
 * reads, of another rank, of its own rank before and after, and of itself. Games of two or three
 * ranks, made by hand. */
#include "collectives/plan/bind_inside.h"
#include "rig/test.h"

#include <string.h>

enum { ACTS = 8, RANKS = 3 };

struct table {
    struct gyre_bind_game game;
    struct gyre_bind_player player[RANKS];
    struct gyre_bind_act act[RANKS][ACTS];
    struct gyre_bind_use use[4 * ACTS];
};

static struct table *lay(enum gyre_verb verb)
{
    static struct table t;
    memset(&t, 0, sizeof t);
    for (int r = 0; r < RANKS; r++)
        t.player[r].act = t.act[r];
    t.game = (struct gyre_bind_game){
        .slice = {.verb = verb, .n = RANKS}, .n = RANKS, .player = t.player, .use = t.use};
    return &t;
}

static struct gyre_block_ref at(uint32_t rank, uint32_t block, uint64_t offset)
{
    return (struct gyre_block_ref){rank, block, offset};
}

static void use_bytes(struct table *t, uint32_t by, struct gyre_block_ref ref, bool writes)
{
    t->use[t->game.uses++] =
        (struct gyre_bind_use){.ref = ref, .by = by, .act = t->player[by].acts, .writes = writes};
}

/* The next act of rank `by`: a copy. */
static void add_copy(struct table *t, uint32_t by, uint64_t length, struct gyre_block_ref from,
                     struct gyre_block_ref to)
{
    t->act[by][t->player[by].acts] = (struct gyre_bind_act){
        .length = length, .sources = 1, .destinations = 1, .first = t->game.uses};
    use_bytes(t, by, from, false);
    use_bytes(t, by, to, true);
    t->player[by].acts++;
}

/* The next act of rank `by`: a fold of two blocks. */
static void add_fold(struct table *t, uint32_t by, uint64_t length, struct gyre_block_ref a,
                     struct gyre_block_ref b, struct gyre_block_ref to)
{
    t->act[by][t->player[by].acts] = (struct gyre_bind_act){
        .length = length, .sources = 2, .destinations = 1, .first = t->game.uses};
    use_bytes(t, by, a, false);
    use_bytes(t, by, b, false);
    use_bytes(t, by, to, true);
    t->player[by].acts++;
}

static bool safe(const struct table *t)
{
    return gyre_bind_safe_in_place(&t->game);
}

/* -- another rank reads ------------------------------------------------------------------------ */

/* Rank 0 writes bytes 100 … 199 of rank 1's OUTPUT, while rank 1 reads `length` bytes of its INPUT
 * from `from` on. */
static bool beside(uint64_t from, uint64_t length)
{
    struct table *t = lay(GYRE_VERB_ALL_REDUCE);
    add_copy(t, 0, 100, at(0, 0, 0), at(1, 0, 100));
    add_copy(t, 1, length, at(1, 0, from), at(2, 0, 5000));
    return safe(t);
}

static void what_lies_apart_is_safe(void **state)
{
    (void)state;
    assert_true(beside(0, 100));
    assert_true(beside(200, 100));
    assert_true(beside(1000, 1));
    assert_true(beside(150, 0));
}

static void partial_overlaps_are_refused(void **state)
{
    (void)state;
    assert_false(beside(100, 100));
    assert_false(beside(0, 101));
    assert_false(beside(199, 100));
    assert_false(beside(120, 10)); /* within */
    assert_false(beside(0, 1000)); /* around */
}

static void other_ranks_and_nothing_are_safe(void **state)
{
    struct table *t = lay(GYRE_VERB_ALL_REDUCE);
    (void)state;
    add_copy(t, 0, 100, at(0, 0, 0), at(1, 0, 100));
    add_copy(t, 2, 100, at(2, 0, 100), at(2, 0, 100));
    assert_true(safe(t));
    t = lay(GYRE_VERB_ALL_REDUCE);
    add_copy(t, 0, 0, at(0, 0, 0), at(1, 0, 150));
    add_copy(t, 1, 100, at(1, 0, 100), at(2, 0, 5000));
    assert_true(safe(t));
}

/* -- the same rank reads ----------------------------------------------------------------------- */

/* Moves of one rank run in order: what an earlier one has read may be overwritten. */
static void a_rank_may_write_what_it_has_read(void **state)
{
    struct table *t = lay(GYRE_VERB_ALL_REDUCE);
    (void)state;
    add_copy(t, 0, 100, at(1, 0, 50), at(2, 0, 5000));
    add_copy(t, 0, 100, at(0, 0, 0), at(1, 0, 100));
    assert_true(safe(t));
    t = lay(GYRE_VERB_ALL_REDUCE);
    add_copy(t, 0, 100, at(0, 0, 0), at(1, 0, 100));
    add_copy(t, 0, 100, at(1, 0, 50), at(2, 0, 5000));
    assert_false(safe(t));
}

/* Another rank's move of an earlier number has not run before. */
static void order_holds_within_a_rank_only(void **state)
{
    struct table *t = lay(GYRE_VERB_ALL_REDUCE);
    (void)state;
    add_copy(t, 1, 100, at(1, 0, 100), at(2, 0, 5000));
    add_copy(t, 0, 10, at(0, 0, 0), at(0, 0, 0));
    add_copy(t, 0, 100, at(0, 0, 0), at(1, 0, 100));
    assert_false(safe(t));
}

/* A fold may write where it reads, byte upon byte; shifted, it would read what it has written. */
static void shifted_reads_are_refused(void **state)
{
    static const uint64_t offsets[] = {1, 50, 99, 101, 150, 199};
    struct table *t = lay(GYRE_VERB_ALL_REDUCE);
    (void)state;
    add_fold(t, 0, 100, at(0, 0, 100), at(1, 0, 100), at(0, 0, 100));
    assert_true(safe(t));
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        t = lay(GYRE_VERB_ALL_REDUCE);
        add_fold(t, 0, 100, at(0, 0, 100), at(1, 0, 100), at(0, 0, offsets[i]));
        assert_false(safe(t));
    }
    t = lay(GYRE_VERB_ALL_REDUCE);
    add_fold(t, 0, 100, at(0, 0, 100), at(1, 0, 100), at(0, 0, 200));
    assert_true(safe(t));
}

/* -- copies onto themselves, and blocks -------------------------------------------------------- */

/* What is there already may be written while others read it; a copy from elsewhere or a sum may
 * not. */
static void a_copy_onto_itself_harms_nobody(void **state)
{
    struct table *t = lay(GYRE_VERB_ALL_REDUCE);
    (void)state;
    add_copy(t, 0, 100, at(0, 0, 100), at(0, 0, 100));
    add_copy(t, 1, 100, at(0, 0, 150), at(1, 0, 5000));
    assert_true(safe(t));
    t = lay(GYRE_VERB_ALL_REDUCE);
    add_copy(t, 0, 100, at(0, 0, 101), at(0, 0, 100));
    add_copy(t, 1, 100, at(0, 0, 150), at(1, 0, 5000));
    assert_false(safe(t));
    t = lay(GYRE_VERB_ALL_REDUCE);
    add_fold(t, 0, 100, at(0, 0, 100), at(2, 0, 100), at(0, 0, 100));
    add_copy(t, 1, 100, at(0, 0, 150), at(1, 0, 5000));
    assert_false(safe(t));
}

/* In place INPUT is block `rank` of OUTPUT: any rank may write the others. */
static void of_a_gather_own_blocks_are_kept(void **state)
{
    (void)state;
    for (uint32_t block = 0; block < RANKS; block++) {
        struct table *t = lay(GYRE_VERB_ALL_GATHER);
        add_copy(t, 0, 100, at(0, 0, 0), at(1, block, 0));
        add_copy(t, 2, 100, at(1, 0, 0), at(2, 1, 0));
        assert_int_equal(safe(t), block != 1);
    }
}

/* In place OUTPUT is block `rank` of INPUT: what others read of the INPUT may not be that one. */
static void of_a_scatter_own_blocks_are_kept(void **state)
{
    (void)state;
    for (uint32_t block = 0; block < RANKS; block++) {
        struct table *t = lay(GYRE_VERB_REDUCE_SCATTER);
        add_copy(t, 0, 100, at(0, 1, 0), at(1, 0, 0));
        add_copy(t, 2, 100, at(1, block, 0), at(2, 0, 0));
        assert_int_equal(safe(t), block != 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_apart_is_safe),
        cmocka_unit_test(partial_overlaps_are_refused),
        cmocka_unit_test(other_ranks_and_nothing_are_safe),
        cmocka_unit_test(a_rank_may_write_what_it_has_read),
        cmocka_unit_test(order_holds_within_a_rank_only),
        cmocka_unit_test(shifted_reads_are_refused),
        cmocka_unit_test(a_copy_onto_itself_harms_nobody),
        cmocka_unit_test(of_a_gather_own_blocks_are_kept),
        cmocka_unit_test(of_a_scatter_own_blocks_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
