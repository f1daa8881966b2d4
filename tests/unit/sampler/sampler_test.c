/* The sampler against torch's DistributedSampler, list by list, and against what it promises beyond
 * it: each sample once, shares by weight, and going on with another number of ranks. */
#include "base/rng.h"
#include "base/status.h"
#include "unit/sampler/order_digest.h"
#include "unit/sampler/sampler_vectors.h"
#include "rig/sanitized.h"

#include <gyre/sampler.h>

#include <errno.h>
#include <string.h>

#define N_MAX     300 /* samples of a random trial */
#define WORLD_MAX 12  /* and its ranks */

/* -- one rank's list --------------------------------------------------------------------------- */

static struct gyre_sampler_options options_of(uint64_t n, int world, enum gyre_tail tail)
{
    struct gyre_sampler_options options = GYRE_SAMPLER_OPTIONS_INIT;
    options.samples = n;
    options.world = world;
    options.tail = tail;
    return options;
}

static struct gyre_sampler *begun(const struct gyre_sampler_options *options, int rank,
                                  uint64_t epoch, uint64_t cursor)
{
    struct gyre_sampler_options own = *options;
    struct gyre_sampler *sampler;
    own.rank = rank;
    assert_int_equal(gyre_sampler_create(&sampler, &own), 0);
    assert_int_equal(gyre_sampler_begin(sampler, epoch, cursor), 0);
    return sampler;
}

/* All that is left for the rank, in one span; the list has room for it. */
static uint64_t rest_of(const struct gyre_sampler_options *options, int rank, uint64_t epoch,
                        uint64_t cursor, uint64_t *list)
{
    struct gyre_sampler *sampler = begun(options, rank, epoch, cursor);
    uint64_t here = gyre_sampler_left_here(sampler), count;
    assert_int_equal(gyre_sampler_next(sampler, UINT64_MAX, list, here, &count), 0);
    assert_int_equal(count, here);
    assert_int_equal(gyre_sampler_left(sampler), 0);
    assert_int_equal(gyre_sampler_left_here(sampler), 0);
    gyre_sampler_destroy(sampler);
    return count;
}

static void lists_are_those_of_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const struct vector *v = &vectors[i];
        struct gyre_sampler_options options =
            options_of(v->n, v->world, v->drop_last ? GYRE_TAIL_DROP : GYRE_TAIL_REPEAT);
        options.seed = v->seed;
        options.shuffle = v->shuffle;
        uint64_t *list = malloc((v->length + 1) * sizeof *list);
        for (int rank = 0; rank < v->world; rank++) {
            assert_int_equal(rest_of(&options, rank, v->epoch, 0, list), v->length);
            assert_int_equal(order_digest(list, v->length), v->digest[rank]);
            for (uint64_t k = 0; rank == 0 && k < VECTOR_FIRST && k < v->length; k++)
                assert_int_equal(list[k], v->first[k]);
        }
        free(list);
    }
}

/* torch's loader cuts a rank's list into batches of B; a span of world · B is one of each. */
static void spans_are_batches(void **state)
{
    struct gyre_sampler_options options = options_of(142, 4, GYRE_TAIL_REPEAT);
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        uint64_t whole[36], part[8], count, epoch, cursor;
        assert_int_equal(rest_of(&options, rank, 3, 0, whole), 36);
        struct gyre_sampler *sampler = begun(&options, rank, 3, 0);
        assert_int_equal(gyre_sampler_left(sampler), 144);
        for (uint64_t at = 0; at < 36; at += count) {
            assert_int_equal(gyre_sampler_next(sampler, 32, part, 8, &count), 0);
            assert_int_equal(count, at < 32 ? 8 : 4);
            assert_memory_equal(part, whole + at, count * sizeof *part);
            gyre_sampler_position(sampler, &epoch, &cursor);
            assert_int_equal(epoch, 3);
            assert_int_equal(cursor, at < 32 ? 4 * (at + 8) : 142);
        }
        assert_int_equal(gyre_sampler_next(sampler, 32, part, 8, &count), 0);
        assert_int_equal(count, 0);
        gyre_sampler_destroy(sampler);
    }
}

static void the_seed_and_the_epoch_make_the_order(void **state)
{
    struct gyre_sampler_options options = options_of(50, 1, GYRE_TAIL_ONCE);
    uint64_t first[50], later[50], other[50], count;
    (void)state;
    rest_of(&options, 0, 2, 0, first);
    options.seed = (UINT64_C(1) << 32) + 1;
    struct gyre_sampler *sampler = begun(&options, 0, 0, 0);
    assert_int_equal(gyre_sampler_next(sampler, 50, other, 50, &count), 0);
    assert_memory_not_equal(first, other, sizeof first);
    assert_int_equal(gyre_sampler_begin(sampler, 1, 0), 0);
    assert_int_equal(gyre_sampler_next(sampler, 50, later, 50, &count), 0);
    assert_memory_equal(first, later, sizeof first);
    assert_int_equal(gyre_sampler_begin(sampler, 0, 10), 0);
    assert_int_equal(gyre_sampler_next(sampler, 50, later, 50, &count), 0);
    assert_int_equal(count, 40);
    assert_memory_equal(other + 10, later, 40 * sizeof *later);
    gyre_sampler_destroy(sampler);
}

/* -- each sample once -------------------------------------------------------------------------- */

/* A random job: samples, ranks, tail, seed and, by turns, shares with or without steps. */
struct trial {
    struct gyre_rng rng;
    struct gyre_sampler_options options;
    double share[WORLD_MAX];
};

static uint64_t below(struct trial *trial, uint64_t bound)
{
    return gyre_rng_below(&trial->rng, bound);
}

static void change_ranks(struct trial *trial)
{
    struct gyre_sampler_options *o = &trial->options;
    o->world = 1 + (int)below(trial, WORLD_MAX);
    o->shares = o->tail == GYRE_TAIL_ONCE && below(trial, 2) ? trial->share : NULL;
    o->step = below(trial, 2) ? 1 + below(trial, 40) : 0;
    for (int r = 0; r < WORLD_MAX; r++)
        trial->share[r] = (double)(1 + below(trial, 9)) / (double)(1 + below(trial, 3));
}

static void draw(struct trial *trial, uint64_t number)
{
    gyre_rng_seed(&trial->rng, number);
    trial->options =
        options_of(1 + below(trial, number % 4 ? N_MAX : 15), 1, (enum gyre_tail)below(trial, 3));
    trial->options.seed = below(trial, 1000);
    trial->options.shuffle = (int)below(trial, 4) > 0;
    change_ranks(trial);
}

/* All ranks take `steps` spans (or all there are), by turns; what they got is counted in `seen`.
 * Returns the cursor, which all must agree on. */
static uint64_t walk(struct trial *trial, uint64_t cursor, uint64_t span, uint64_t steps,
                     unsigned *seen)
{
    uint64_t part[N_MAX + WORLD_MAX], count, sum, at = cursor, left;
    struct gyre_sampler *sampler[WORLD_MAX] = {NULL};
    int world = trial->options.world;
    for (int rank = 0; rank < world; rank++)
        sampler[rank] = begun(&trial->options, rank, 7, cursor);
    while (steps-- > 0 && (left = gyre_sampler_left(sampler[0])) > 0) {
        sum = 0;
        for (int rank = 0; rank < world; rank++) {
            assert_int_equal(gyre_sampler_left(sampler[rank]), left);
            assert_int_equal(
                gyre_sampler_next(sampler[rank], span, part, N_MAX + WORLD_MAX, &count), 0);
            sum += count;
            for (uint64_t i = 0; i < count; i++)
                seen[part[i]]++;
        }
        assert_int_equal(sum, span < left ? span : left);
    }
    gyre_sampler_position(sampler[0], NULL, &at);
    for (int rank = 0; rank < world; rank++) {
        uint64_t here;
        gyre_sampler_position(sampler[rank], NULL, &here);
        assert_int_equal(here, at);
        gyre_sampler_destroy(sampler[rank]);
    }
    return at;
}

/* Stops up to three times in an epoch and goes on with other ranks, then ends it. */
static void every_sample_is_taken_once_also_by_other_ranks(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 3000; number++) {
        struct trial trial;
        unsigned seen[N_MAX] = {0};
        uint64_t cursor = 0, repeated = 0, missing = 0;
        draw(&trial, number);
        for (uint64_t stops = below(&trial, 4); stops-- > 0; change_ranks(&trial))
            cursor = walk(&trial, cursor, 1 + below(&trial, 60), below(&trial, 5), seen);
        walk(&trial, cursor, 1 + below(&trial, 60), UINT64_MAX, seen);
        for (uint64_t i = 0; i < trial.options.samples; i++) {
            repeated += seen[i] > 1 ? seen[i] - 1 : 0;
            missing += seen[i] == 0;
        }
        assert_true(repeated == 0 || trial.options.tail == GYRE_TAIL_REPEAT);
        assert_true(missing == 0 || trial.options.tail == GYRE_TAIL_DROP);
        assert_true(missing < WORLD_MAX);
        if (trial.options.tail == GYRE_TAIL_REPEAT)
            assert_true(repeated < 4 * WORLD_MAX);
    }
}

/* With the same ranks, what a rank gets behind the cursor is what it would have got. */
static void going_on_changes_nothing(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 1000; number++) {
        struct trial trial;
        uint64_t whole[N_MAX + WORLD_MAX], rest[N_MAX + WORLD_MAX];
        draw(&trial, number);
        struct gyre_sampler_options *o = &trial.options;
        uint64_t cursor = below(&trial, o->samples + 1);
        if (o->tail != GYRE_TAIL_ONCE)
            cursor -= cursor % (uint64_t)o->world;
        for (int rank = 0; rank < o->world; rank++) {
            uint64_t all = rest_of(o, rank, 1, 0, whole);
            uint64_t count = rest_of(o, rank, 1, cursor, rest);
            assert_true(count <= all);
            assert_memory_equal(whole + (all - count), rest, count * sizeof *rest);
        }
    }
}

static void ranks_are_even(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 1000; number++) {
        struct trial trial;
        uint64_t list[N_MAX + WORLD_MAX], least = UINT64_MAX, most = 0;
        draw(&trial, number);
        struct gyre_sampler_options *o = &trial.options;
        uint64_t cursor = below(&trial, o->samples + 1);
        o->shares = NULL;
        for (int rank = 0; rank < o->world; rank++) {
            uint64_t count = rest_of(o, rank, 0, cursor, list);
            least = count < least ? count : least;
            most = count > most ? count : most;
        }
        assert_true(most - least <= (o->tail == GYRE_TAIL_ONCE));
    }
}

/* -- shares ------------------------------------------------------------------------------------ */

static void equal_shares_are_none(void **state)
{
    static const double weight[WORLD_MAX] = {2.5, 2.5, 2.5, 2.5, 2.5, 2.5,
                                             2.5, 2.5, 2.5, 2.5, 2.5, 2.5};
    (void)state;
    for (uint64_t n = 1; n < 100; n++) {
        struct gyre_sampler_options options = options_of(n, 1 + (int)(n % 12), GYRE_TAIL_ONCE);
        for (int rank = 0; rank < options.world; rank++) {
            uint64_t with[N_MAX], without[N_MAX];
            options.shares = NULL;
            uint64_t count = rest_of(&options, rank, n, n / 3, without);
            options.shares = weight;
            assert_int_equal(rest_of(&options, rank, n, n / 3, with), count);
            assert_memory_equal(with, without, count * sizeof *with);
        }
    }
}

/* Where shares hold within a step, every whole step gives a rank as many. */
static void steps_are_alike(void **state)
{
    static const double weight[] = {4, 2, 1};
    static const uint64_t each[] = {18, 9, 5}, last[] = {8, 4, 2}; /* of 32, and of 14 */
    struct gyre_sampler_options options = options_of(142, 3, GYRE_TAIL_ONCE);
    (void)state;
    options.shares = weight;
    options.step = 32;
    for (int rank = 0; rank < 3; rank++) {
        struct gyre_sampler *sampler = begun(&options, rank, 0, 0);
        uint64_t part[32], count;
        assert_int_equal(gyre_sampler_left_here(sampler), 4 * each[rank] + last[rank]);
        for (int step = 0; step < 5; step++) {
            assert_int_equal(gyre_sampler_next(sampler, 32, part, 32, &count), 0);
            assert_int_equal(count, step < 4 ? each[rank] : last[rank]);
        }
        gyre_sampler_destroy(sampler);
    }
}

/* -- refusals ---------------------------------------------------------------------------------- */

static void expect_refused(int status, const char *says)
{
    assert_int_equal(status, GYRE_INVALID);
    assert_int_equal(gyre_thread_trouble()->status, GYRE_INVALID);
    if (!strstr(gyre_thread_trouble()->text, says))
        fail_msg("\"%s\" does not say \"%s\"", gyre_thread_trouble()->text, says);
}

static void refuse_options(struct gyre_sampler_options options, const char *says)
{
    struct gyre_sampler *sampler = (struct gyre_sampler *)&options;
    expect_refused(gyre_sampler_create(&sampler, &options), says);
    assert_null(sampler);
}

static void unusable_options_are_named(void **state)
{
    struct gyre_sampler_options good = options_of(10, 4, GYRE_TAIL_ONCE), bad;
    struct gyre_sampler *sampler;
    (void)state;
    expect_refused(gyre_sampler_create(NULL, &good), "sampler is NULL");
    expect_refused(gyre_sampler_create(&sampler, NULL), "options are NULL");
    bad = good, bad.size = 8;
    refuse_options(bad, "gyre_sampler_options.size is 8");
    bad = good, bad.samples = 0;
    refuse_options(bad, "gyre_sampler_create: 0 samples: expected 1 to 9007199254740992");
    bad = good, bad.samples = (UINT64_C(1) << 53) + 1;
    refuse_options(bad, "9007199254740993 samples");
    bad = good, bad.rank = 4;
    refuse_options(bad, "rank 4 of a world of 4 ranks: expected 0 to 3");
    bad = good, bad.rank = -1;
    refuse_options(bad, "rank -1 of a world of 4 ranks");
    bad = good, bad.world = 0;
    refuse_options(bad, "a world of 0 ranks: expected 1 to 1048576");
    bad = good, bad.world = (1 << 20) + 1;
    refuse_options(bad, "a world of 1048577 ranks");
    bad = good, bad.tail = (enum gyre_tail)3;
    refuse_options(bad, "tail 3 is unknown");
    bad = good, bad.tail = GYRE_TAIL_DROP, bad.shares = (double[]){1, 1, 1, 1};
    refuse_options(bad, "shares go with GYRE_TAIL_ONCE, not with tail 1");
    bad = good, bad.shares = (double[]){1, 1, 0, 1};
    refuse_options(bad,
                   "gyre_sampler_create: the share of rank 2 is 0: shares are positive and finite");
}

static void unusable_positions_change_nothing(void **state)
{
    struct gyre_sampler_options options = options_of(10, 2, GYRE_TAIL_REPEAT);
    struct gyre_sampler *sampler = begun(&options, 0, 0, 4);
    uint64_t part[4], count, epoch, cursor;
    (void)state;
    expect_refused(gyre_sampler_begin(sampler, 1, 11),
                   "cursor 11 of epoch 1 is beyond its 10 samples");
    expect_refused(gyre_sampler_begin(NULL, 0, 0), "the sampler is NULL");
    expect_refused(gyre_sampler_next(sampler, 0, part, 4, &count), "a span of 0 samples");
    expect_refused(gyre_sampler_next(sampler, 6, part, 2, &count),
                   "room for 2 samples, but rank 0 gets 3 of the next 6");
    assert_int_equal(count, 3);
    expect_refused(gyre_sampler_next(sampler, 2, NULL, 4, &count), "indices is NULL");
    expect_refused(gyre_sampler_next(sampler, 2, part, 4, NULL), "count is NULL");
    expect_refused(gyre_sampler_next(NULL, 2, part, 4, &count), "the sampler is NULL");
    gyre_sampler_position(sampler, &epoch, &cursor);
    assert_int_equal(epoch, 0);
    assert_int_equal(cursor, 4);
    assert_int_equal(gyre_sampler_left(NULL) + gyre_sampler_left_here(NULL), 0);
    gyre_sampler_destroy(sampler);
    gyre_sampler_destroy(NULL);
}

/* Without a shuffle nothing grows with the samples. */
static void a_walk_without_a_shuffle_holds_no_order(void **state)
{
    struct gyre_sampler_options options = options_of(UINT64_C(1) << 53, 2, GYRE_TAIL_ONCE);
    uint64_t part[2], count;
    (void)state;
    options.shuffle = 0;
    struct gyre_sampler *sampler = begun(&options, 1, 0, (UINT64_C(1) << 53) - 4);
    assert_int_equal(gyre_sampler_next(sampler, 4, part, 2, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(part[0], (UINT64_C(1) << 53) - 3);
    assert_int_equal(part[1], (UINT64_C(1) << 53) - 1);
    gyre_sampler_destroy(sampler);
}

/* A sanitizer ends the process instead. */
static void an_order_that_does_not_fit_is_told(void **state)
{
#ifdef SANITIZED
    skip();
#endif
    struct gyre_sampler_options options = options_of(UINT64_C(1) << 53, 2, GYRE_TAIL_ONCE);
    struct gyre_sampler *sampler;
    (void)state;
    assert_int_equal(gyre_sampler_create(&sampler, &options), -ENOMEM);
    assert_non_null(strstr(gyre_thread_trouble()->text, "an order of 9007199254740992 samples"));
    assert_null(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_those_of_torch),
        cmocka_unit_test(spans_are_batches),
        cmocka_unit_test(the_seed_and_the_epoch_make_the_order),
        cmocka_unit_test(every_sample_is_taken_once_also_by_other_ranks),
        cmocka_unit_test(going_on_changes_nothing),
        cmocka_unit_test(ranks_are_even),
        cmocka_unit_test(equal_shares_are_none),
        cmocka_unit_test(steps_are_alike),
        cmocka_unit_test(unusable_options_are_named),
        cmocka_unit_test(unusable_positions_change_nothing),
        cmocka_unit_test(a_walk_without_a_shuffle_holds_no_order),
        cmocka_unit_test(an_order_that_does_not_fit_is_told),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
