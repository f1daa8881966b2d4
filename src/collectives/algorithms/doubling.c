/* Recursive doubling: all-reduce for small data in ⌈log₂ n⌉ exchanges.
 *
 * In step k every rank holds the sum of its block of 2^k neighbours and swaps it with a rank of the
 * block beside. After the swap both hold the sum of 2^(k+1) ranks. Here n = 4:
 *
 *        0 ⇄ 1    2 ⇄ 3        step 0: sums of 2
 *        0 ⇄ 2    1 ⇄ 3        step 1: sums of 4, on every rank
 *
 * Each message carries all the data, so doubling pays while start-up costs more than bytes: a rank
 * sends log₂ n messages, in direct n-1. Both ends of a swap add the lower block first, so all ranks
 * end bitwise equal.
 *
 * Where n is no power of two, the first 2e ranks (e is n less the power below) pair up first: the
 * odd rank gives its data to the even one and gets the result at the end.
 *
 *        n = 6, e = 2:    1 ─▶ 0    3 ─▶ 2    then 0, 2, 4, 5 as four    0 ─▶ 1    2 ─▶ 3
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "base/size.h"
#include "collectives/schedule/schedule.h"

struct team {
    uint32_t places; /* the largest power of two that is not above n */
    uint32_t pairs;  /* e */
    uint32_t levels; /* log₂ places */
};

static struct team team_of(const struct gyre_slice *s)
{
    struct team team = {.places = 1};
    for (; team.places <= s->n / 2; team.places *= 2)
        team.levels++;
    team.pairs = s->n - team.places;
    return team;
}

static uint64_t slice_bytes_of(const struct gyre_slice *s)
{
    return s->count * s->element;
}

static bool in_pair(const struct gyre_slice *s, struct team team)
{
    return s->rank < 2 * team.pairs;
}

static bool steps_aside(const struct gyre_slice *s, struct team team)
{
    return in_pair(s, team) && s->rank % 2 == 1;
}

/* A rank's place in the doubling; places follow the order of ranks. */
static uint32_t team_place(const struct gyre_slice *s, struct team team)
{
    return in_pair(s, team) ? s->rank / 2 : s->rank - team.pairs;
}

static uint32_t rank_at(uint32_t place, struct team team)
{
    return place < team.pairs ? 2 * place : place + team.pairs;
}

static const struct gyre_place input = {GYRE_INPUT, 0}, output = {GYRE_OUTPUT, 0},
                               scratch = {GYRE_SCRATCH, 0};

/* The place of what this rank has summed below `level`. */
static struct gyre_place doubling_sum(const struct gyre_slice *s, struct team team, uint32_t level)
{
    return level == 0 && !in_pair(s, team) ? input : output;
}

static void add_pair(const struct gyre_slice *s, struct gyre_round *round, struct gyre_place first,
                     struct gyre_place second, bool last)
{
    gyre_round_reduce(round, output, slice_bytes_of(s), last ? GYRE_STEP_FINAL : 0);
    gyre_round_source(round, first);
    gyre_round_source(round, second);
}

static void gather_pair(const struct gyre_slice *s, struct team team, uint64_t index,
                        struct gyre_round *round)
{
    if (!in_pair(s, team))
        return;
    if (index == 0 && steps_aside(s, team))
        gyre_round_send(round, s->rank - 1, input, slice_bytes_of(s));
    else if (index == 0)
        gyre_round_recv(round, s->rank + 1, scratch, slice_bytes_of(s));
    else if (!steps_aside(s, team))
        add_pair(s, round, input, scratch, team.levels == 0);
}

static void swap(const struct gyre_slice *s, struct team team, uint64_t index,
                 struct gyre_round *round)
{
    uint32_t level = (uint32_t)index / 2, place = team_place(s, team);
    uint32_t partner = place ^ 1u << level;
    struct gyre_place mine = doubling_sum(s, team, level);
    if (index % 2 == 0) {
        gyre_round_recv(round, rank_at(partner, team), scratch, slice_bytes_of(s));
        gyre_round_send(round, rank_at(partner, team), mine, slice_bytes_of(s));
    } else {
        bool lower = place < partner;
        add_pair(s, round, lower ? mine : scratch, lower ? scratch : mine,
                 level + 1 == team.levels);
    }
}

static void release_pair(const struct gyre_slice *s, struct team team, struct gyre_round *round)
{
    if (steps_aside(s, team))
        gyre_round_recv(round, s->rank - 1, output, slice_bytes_of(s));
    else if (in_pair(s, team))
        gyre_round_send(round, s->rank + 1, output, slice_bytes_of(s));
}

static void doubling_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    struct team team = team_of(s);
    uint64_t before = team.pairs ? 2 : 0, swaps = 2 * (uint64_t)team.levels;
    if (s->n == 1) {
        gyre_round_reduce(round, output, slice_bytes_of(s), GYRE_STEP_FINAL);
        gyre_round_source(round, input);
    } else if (index < before) {
        gather_pair(s, team, index, round);
    } else if (index >= before + swaps) {
        release_pair(s, team, round);
    } else if (!steps_aside(s, team)) {
        swap(s, team, index - before, round);
    }
}

static struct gyre_extent doubling_extent(const struct gyre_slice *s)
{
    struct team team = team_of(s);
    if (s->n == 1)
        return (struct gyre_extent){1, 0, 1, 1};
    return (struct gyre_extent){2 * (uint64_t)team.levels + (team.pairs ? 3 : 0), slice_bytes_of(s),
                                2, 2};
}

static uint64_t doubling_sent_bytes(const struct gyre_slice *s)
{
    struct team team = team_of(s);
    if (steps_aside(s, team))
        return slice_bytes_of(s);
    return slice_bytes_of(s) * (team.levels + in_pair(s, team));
}

const struct gyre_algorithm gyre_algorithm_doubling = {
    .name = "doubling",
    .summary =
        "recursive doubling: all data to a partner in each of log n exchanges, for small data",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE,
    .extent = doubling_extent,
    .round = doubling_round,
    .sent_bytes = doubling_sent_bytes,
};
