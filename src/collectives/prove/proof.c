/* The proof, round by round.
 *
 *     each round   build   the steps of every rank      do they fit the promised extent?
 *                  form    each step alone              in bounds? whole elements? right buffer?
 *                  match   a message with its other     of equal length, in the same round?
 *                  apart   the steps of a rank          written twice? written and read?
 *                  move    values                       read before written? summed twice?
 *     at the end           OUTPUT of every rank, scratch used, bytes sent
 *
 * Why matching within the round excludes deadlock. Take the ranks that are in the lowest round k.
 * Each waits only for messages of round k. Its partner is in round k too and has posted its half,
 * or is beyond k and has finished that half. So all ranks finish round k. Channels may be first in,
 * first out: there is one message per pair, direction and round, and both ends name messages in the
 * order of the rounds.
 *
 * Why one run proves every choice of in-place. Only OUTPUT differs. Where INPUT and OUTPUT are one
 * memory, say INPUT + x is OUTPUT + x + d, writing OUTPUT + x + d destroys INPUT + x. So INPUT + x
 * may be read only while that OUTPUT is unwritten or a copy of that very INPUT, and within a round
 * INPUT and OUTPUT count as one buffer. Then a rank reads the same values either way, its messages
 * are the same, and no other rank can tell its choice. An all-to-all that sends what it overwrites
 * cannot keep this rule. Its slice says whether its rank works in place; the schedule is checked
 * for that choice, and must promise the same extent and send the same bytes for both.
 *
 * Tested by tests/unit/collectives/prove/check_test.c. */
#include "collectives/prove/proof.h"

#include "collectives/algorithms/table.h"
#include "base/size.h"
#include "collectives/prove/check_inside.h"

#include <errno.h>
#include <stdlib.h>

/* -- one round --------------------------------------------------------------------------------- */

static int build_round(struct gyre_checker *c, struct gyre_actor *a)
{
    gyre_round_clear(&a->round);
    c->algorithm->round(&a->slice, c->index, &a->round);
    if (a->round.overflow)
        return gyre_check_fail_rank(
            c, a->slice.rank, "round %llu needs more than the extent's %u steps and %u sources",
            (unsigned long long)c->index, a->extent.step_max, a->extent.source_max);
    c->last_round_used |= a->round.steps > 0;
    return gyre_check_steps(c, a);
}

static int for_all(struct gyre_checker *c, int (*visit)(struct gyre_checker *, struct gyre_actor *))
{
    int status = 0;
    for (uint32_t rank = 0; status == 0 && rank < c->n; rank++)
        status = visit(c, &c->actor[rank]);
    return status;
}

static int check_round(struct gyre_checker *c)
{
    c->last_round_used = false;
    int status = for_all(c, build_round);
    if (status == 0)
        status = for_all(c, gyre_check_messages);
    if (status == 0)
        status = for_all(c, gyre_check_apart);
    if (status == 0)
        status = for_all(c, gyre_check_move);
    return status;
}

/* -- set up and take down ---------------------------------------------------------------------- */

/* Whether the rank's buffers may be one memory: the rank has both, and an all-to-all works in
 * place. */
static bool may_alias(const struct gyre_slice *s)
{
    return gyre_slice_blocks(s, GYRE_INPUT) > 0 && gyre_slice_blocks(s, GYRE_OUTPUT) > 0 &&
           (s->verb != GYRE_VERB_ALL_TO_ALL || s->in_place);
}

static int init_actor(struct gyre_checker *c, const struct gyre_slice *slice, uint32_t rank)
{
    struct gyre_actor *a = &c->actor[rank];
    a->slice = slice[rank];
    a->slice.rank = rank;
    a->aliased = may_alias(&a->slice);
    a->shift = gyre_slice_shift(&a->slice);
    a->extent = c->algorithm->extent(&a->slice);
    return gyre_round_init(&a->round, &a->extent);
}

static int init_rooms(struct gyre_checker *c)
{
    size_t steps = 0, sources = 0;
    for (uint32_t rank = 0; rank < c->n; rank++) {
        const struct gyre_extent *extent = &c->actor[rank].extent;
        steps = extent->step_max > steps ? extent->step_max : steps;
        sources = extent->source_max > sources ? extent->source_max : sources;
    }
    c->cursor = calloc(sources + 1, sizeof *c->cursor);
    c->term = calloc(sources + 1, sizeof *c->term);
    c->access = calloc(steps + sources + 1, sizeof *c->access);
    return c->cursor == NULL || c->term == NULL || c->access == NULL ? -ENOMEM : 0;
}

static int init(struct gyre_checker *c, const struct gyre_slice *slice)
{
    c->n = slice->n;
    c->actor = calloc(c->n, sizeof *c->actor);
    if (c->actor == NULL)
        return -ENOMEM;
    int status = gyre_value_book_init(&c->book, c->n, slice->rounds_partials);
    for (uint32_t rank = 0; status == 0 && rank < c->n; rank++)
        status = init_actor(c, slice, rank);
    return status != 0 ? status : init_rooms(c);
}

static void deinit(struct gyre_checker *c)
{
    for (uint32_t rank = 0; c->actor != NULL && rank < c->n; rank++) {
        struct gyre_actor *a = &c->actor[rank];
        gyre_round_deinit(&a->round);
        gyre_stretches_deinit(&a->output);
        gyre_stretches_deinit(&a->scratch);
    }
    free(c->actor);
    free(c->cursor);
    free(c->term);
    free(c->access);
    gyre_stretches_deinit(&c->loose);
    gyre_stretches_deinit(&c->sum);
    gyre_value_book_deinit(&c->book);
}

/* -- the question ------------------------------------------------------------------------------ */

/* Whether blocks of equal length lie apart, and offsets fit 64 bits. */
static bool is_sound(const struct gyre_slice *s)
{
    uint64_t bytes;
    bool blocks = gyre_verb_has_blocks(s->verb);
    return s->n >= 1 && s->element >= 1 && s->root < s->n &&
           gyre_mul_u64(s->count, s->element, &bytes) &&
           (!blocks || s->in.count || s->out.count ||
            (s->stride >= s->count && gyre_mul_u64(s->n, s->stride, &bytes) &&
             gyre_mul_u64(bytes, s->element, &bytes) && bytes <= INT64_MAX));
}

int gyre_proving_question(const struct gyre_algorithm *algorithm, const struct gyre_slice *s,
                          struct gyre_trouble *trouble)
{
    if ((unsigned)s->verb >= GYRE_VERBS || !is_sound(s))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "no such slice: operation %u, n = %u, root = %u, count = %llu, "
                                "stride = %llu, element = %u",
                                (unsigned)s->verb, s->n, s->root, (unsigned long long)s->count,
                                (unsigned long long)s->stride, s->element);
    if (!gyre_algorithm_builds(algorithm, s))
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s does not build this %s here",
                                algorithm->name, gyre_verb_word[s->verb]);
    return 0;
}

/* Checks the blocks of an all-to-all: rank i's block for rank j is as long as j's block from i. */
static int check_tables(const struct gyre_slice *of_rank, struct gyre_trouble *trouble)
{
    uint32_t n = of_rank->n;
    for (uint64_t k = 0; of_rank->verb == GYRE_VERB_ALL_TO_ALL && k < (uint64_t)n * n; k++) {
        uint32_t i = (uint32_t)(k / n), j = (uint32_t)(k % n);
        struct gyre_span has = gyre_slice_in_block(&of_rank[i], j);
        struct gyre_span wants = gyre_slice_out_block(&of_rank[j], i);
        if (has.bytes != wants.bytes)
            return gyre_trouble_set(
                trouble, GYRE_INVALID, "rank %u has %llu bytes for rank %u, which wants %llu", i,
                (unsigned long long)has.bytes, j, (unsigned long long)wants.bytes);
    }
    return 0;
}

/* -- all rounds -------------------------------------------------------------------------------- */

/* Whether the extent depends on in_place, which a plan does not know. */
static bool told_by_in_place(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    struct gyre_extent one = algorithm->extent(&slice);
    slice.in_place = !slice.in_place;
    struct gyre_extent other = algorithm->extent(&slice);
    return one.rounds != other.rounds || one.scratch_bytes != other.scratch_bytes ||
           one.step_max != other.step_max || one.source_max != other.source_max ||
           one.idle_rounds != other.idle_rounds;
}

static bool any_in_place(const struct gyre_checker *c)
{
    bool any = false;
    for (uint32_t rank = 0; rank < c->n; rank++)
        any |= c->actor[rank].slice.in_place;
    return any;
}

static int check_extents(struct gyre_checker *c)
{
    uint64_t rounds = c->actor[0].extent.rounds;
    for (uint32_t rank = 1; rank < c->n; rank++)
        if (c->actor[rank].extent.rounds != rounds)
            return gyre_check_fail_rank(c, rank, "its extent has %llu rounds, rank 0's has %llu",
                                        (unsigned long long)c->actor[rank].extent.rounds,
                                        (unsigned long long)rounds);
    for (uint32_t rank = 0; rank < c->n; rank++)
        if (told_by_in_place(c->algorithm, c->actor[rank].slice))
            return gyre_check_fail_rank(c, rank, "its extent depends on in_place");
    return 0;
}

/* Checks the rounds that have steps against the promised ones. */
static int check_use(const struct gyre_checker *c)
{
    uint64_t rounds = c->actor[0].extent.rounds;
    if (rounds > 0 && !c->last_round_used)
        return gyre_check_fail_rank(c, 0, "nobody does anything in the last of %llu rounds",
                                    (unsigned long long)rounds);
    if (!any_in_place(c) && c->rounds_used > rounds - c->actor[0].extent.idle_rounds)
        return gyre_check_fail_rank(c, 0, "%llu of %llu rounds are used, and %llu are to be idle",
                                    (unsigned long long)c->rounds_used, (unsigned long long)rounds,
                                    (unsigned long long)c->actor[0].extent.idle_rounds);
    return 0;
}

/* -- in steps ---------------------------------------------------------------------------------- */

static int tell_no_memory(const struct gyre_checker *c, int status)
{
    if (status == -ENOMEM)
        gyre_trouble_set(c->trouble, status, "no memory to check %s on %u ranks",
                         c->algorithm->name, c->n);
    return status;
}

int gyre_proving_create(struct gyre_checker **proof, const struct gyre_algorithm *algorithm,
                        const struct gyre_slice *of_rank, struct gyre_trouble *trouble)
{
    struct gyre_checker *c = *proof = NULL;
    int status = gyre_proving_question(algorithm, of_rank, trouble);
    if (status == 0)
        status = check_tables(of_rank, trouble);
    if (status != 0)
        return status;
    c = *proof = calloc(1, sizeof *c);
    if (c == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to check %s", algorithm->name);
    *c = (struct gyre_checker){.algorithm = algorithm, .trouble = trouble};
    status = init(c, of_rank);
    return tell_no_memory(c, status != 0 ? status : check_extents(c));
}

void gyre_proving_destroy(struct gyre_checker *c)
{
    if (c != NULL)
        deinit(c);
    free(c);
}

int gyre_proving_round(struct gyre_checker *c)
{
    int status = tell_no_memory(c, check_round(c));
    c->rounds_used += c->last_round_used;
    c->index++;
    return status;
}

int gyre_proving_end(struct gyre_checker *c)
{
    int status = check_use(c);
    if (status == 0)
        status = for_all(c, gyre_check_output);
    return tell_no_memory(c, status != 0 ? status : gyre_check_promises(c));
}

uint64_t gyre_proving_rounds(const struct gyre_checker *c)
{
    return c->actor[0].extent.rounds;
}

const struct gyre_round *gyre_proving_steps(const struct gyre_checker *c, uint32_t rank)
{
    return &c->actor[rank].round;
}

const struct gyre_stretches *gyre_proving_holds(const struct gyre_checker *c, uint32_t rank,
                                                enum gyre_buffer buffer)
{
    const struct gyre_actor *a = &c->actor[rank];
    return buffer == GYRE_OUTPUT ? &a->output : &a->scratch;
}

const struct gyre_value_book *gyre_proving_values(const struct gyre_checker *c)
{
    return &c->book;
}
