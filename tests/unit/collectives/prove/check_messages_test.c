/* What has no plan is proved as well, up to 64 ranks: the blocks of an all_to_all_v, empty and of
 * unequal length, in the order in which collectives/calls/all_to_all_v.c posts them, and messages
 * of a group in which all ranks send first. Here they stand in a schedule that knows all ranks'
 * tables.
 *
 *     as it is             one round: everything is posted at once
 *     stricter than it is  a round for each step: a step is posted when the one before has ended
 *
 * The checker takes a send for ended when its receive has, so what it lets pass waits for
 * nobody. */
#include "collectives/prove/check.h"
#include "collectives/messages/point_to_point.h"
#include "rig/test.h"

#include <string.h>

#define RANKS_MAX 64
#define ELEMENT   4u

/* -- tables ------------------------------------------------------------------------------------ */

static struct tables {
    uint32_t n;
    struct gyre_slice of_rank[RANKS_MAX];
    uint64_t at[2][RANKS_MAX][RANKS_MAX], count[2][RANKS_MAX][RANKS_MAX];
} tables;

static uint64_t nothing(uint32_t from, uint32_t to)
{
    (void)from, (void)to;
    return 0;
}

static uint64_t some_empty(uint32_t from, uint32_t to)
{
    uint32_t mixed = from * 31 + to * 17;
    return mixed % 3 == 0 ? 0 : mixed % 23;
}

static uint64_t long_and_short(uint32_t from, uint32_t to)
{
    return from == to ? 5 : from < to ? 1 + from : 100003 + to;
}

static uint64_t to_the_next(uint32_t from, uint32_t to)
{
    return to == (from + 1) % tables.n ? 7 + from : 0;
}

static void fill(uint32_t n, uint64_t (*length)(uint32_t from, uint32_t to))
{
    struct tables *t = &tables;
    t->n = n;
    for (uint32_t rank = 0; rank < n; rank++) {
        uint64_t out = 0, in = 0;
        for (uint32_t peer = 0; peer < n; peer++) {
            t->at[0][rank][peer] = out;
            t->at[1][rank][peer] = in;
            out += t->count[0][rank][peer] = length(rank, peer);
            in += t->count[1][rank][peer] = length(peer, rank);
        }
        t->of_rank[rank] = (struct gyre_slice){
            .verb = GYRE_VERB_ALL_TO_ALL,
            .n = n,
            .rank = rank,
            .element = ELEMENT,
            .count = 1000000,
            .in = {t->at[0][rank], t->count[0][rank]},
            .out = {t->at[1][rank], t->count[1][rank]},
        };
    }
}

/* -- all_to_all_v ------------------------------------------------------------------------------ */

static struct gyre_place own_data(const struct gyre_slice *s, uint32_t to)
{
    return gyre_at(s->in_place ? GYRE_SCRATCH : GYRE_INPUT, gyre_slice_in_block(s, to).at);
}

/* Who works in place copies the input first. */
static void step_aside(const struct gyre_slice *s, struct gyre_round *round)
{
    for (uint32_t to = 0; to < s->n && s->in_place; to++) {
        struct gyre_span block = gyre_slice_in_block(s, to);
        if (block.bytes)
            gyre_round_copy(round, gyre_at(GYRE_SCRATCH, block.at), gyre_at(GYRE_INPUT, block.at),
                            block.bytes);
    }
}

static void take(const struct gyre_slice *s, uint32_t from, struct gyre_round *round)
{
    struct gyre_span block = gyre_slice_out_block(s, from);
    gyre_round_recv(round, from, gyre_at(GYRE_OUTPUT, block.at), block.bytes);
}

static void give(const struct gyre_slice *s, uint32_t to, struct gyre_round *round)
{
    gyre_round_send(round, to, own_data(s, to), gyre_slice_in_block(s, to).bytes);
}

static void step(const struct gyre_slice *s, uint32_t d, struct gyre_round *round)
{
    struct gyre_span own = gyre_slice_out_block(s, s->rank);
    take(s, gyre_p2p_from(s->rank, s->n, d), round);
    give(s, gyre_p2p_to(s->rank, s->n, d), round);
    if (d == 1 && own.bytes)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, own.at), own_data(s, s->rank), own.bytes);
}

static void at_once(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        step_aside(s, round);
    for (uint32_t d = 1; d < s->n && index == 1; d++)
        step(s, d, round);
}

static void step_by_step(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index == 0)
        step_aside(s, round);
    else
        step(s, (uint32_t)index, round);
}

static struct gyre_extent extent_of(const struct gyre_slice *s, uint64_t rounds, uint64_t scratch)
{
    return (struct gyre_extent){rounds, scratch, .step_max = 2 * s->n, .source_max = s->n};
}

static uint64_t sent_bytes(const struct gyre_slice *s)
{
    return gyre_slice_in_run(s, 0, s->n) - gyre_slice_in_block(s, s->rank).bytes;
}

/* -- a group ----------------------------------------------------------------------------------- */

/* Every rank to the next: the send is called first, and the group starts it at once. */
static void fused(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    (void)index;
    give(s, (s->rank + 1) % s->n, round);
    take(s, (s->rank + s->n - 1) % s->n, round);
}

/* Without a group, where a send waits for its receive. */
static void one_after_the_other(const struct gyre_slice *s, uint64_t index,
                                struct gyre_round *round)
{
    if (index == 0)
        give(s, (s->rank + 1) % s->n, round);
    else
        take(s, (s->rank + s->n - 1) % s->n, round);
}

/* -- the checker's word ------------------------------------------------------------------------ */

static struct gyre_extent one_round(const struct gyre_slice *s)
{
    return extent_of(s, 1, 0);
}

static struct gyre_extent two_rounds(const struct gyre_slice *s)
{
    return extent_of(s, 2, gyre_slice_in_run(s, 0, s->n));
}

static struct gyre_extent two_calls(const struct gyre_slice *s)
{
    return extent_of(s, 2, 0);
}

static struct gyre_extent n_rounds(const struct gyre_slice *s)
{
    return extent_of(s, s->n, gyre_slice_in_run(s, 0, s->n));
}

#define SCHEDULE(name, rounds, build)                                                              \
    {                                                                                              \
        name, "", 1u << GYRE_VERB_ALL_TO_ALL, false, NULL, rounds, build, sent_bytes               \
    }

static const struct gyre_algorithm all_at_once = SCHEDULE("at once", two_rounds, at_once),
                                   strict = SCHEDULE("step by step", n_rounds, step_by_step),
                                   group = SCHEDULE("group", one_round, fused),
                                   no_group = SCHEDULE("calls", two_calls, one_after_the_other);

enum { APART, IN_PLACE, EVERY_OTHER, WAYS };

static void prove(const struct gyre_algorithm *algorithm, int way)
{
    struct gyre_trouble trouble = {0};
    for (uint32_t rank = 0; rank < tables.n; rank++)
        tables.of_rank[rank].in_place = way == IN_PLACE || (way == EVERY_OTHER && rank % 2);
    if (gyre_check_ranks(algorithm, tables.of_rank, &trouble))
        fail_msg("%u ranks: %s", tables.n, trouble.text);
}

static void test_blocks_wait_for_nobody(void **state)
{
    static uint64_t (*const lengths[])(uint32_t, uint32_t) = {nothing, some_empty, long_and_short};
    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n += n < 16 ? 1 : 24)
        for (int i = 0; i < 3 * WAYS; i++) {
            fill(n, lengths[i / WAYS]);
            prove(&all_at_once, i % WAYS);
            prove(&strict, i % WAYS);
        }
}

static void test_all_may_send_first_in_a_group(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        fill(n, to_the_next);
        prove(&group, APART);
    }
}

static void test_without_a_group_they_may_not(void **state)
{
    struct gyre_trouble trouble = {0};
    (void)state;
    fill(3, to_the_next);
    assert_int_equal(gyre_check_ranks(&no_group, tables.of_rank, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "0 matching"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_wait_for_nobody),
        cmocka_unit_test(test_all_may_send_first_in_a_group),
        cmocka_unit_test(test_without_a_group_they_may_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
