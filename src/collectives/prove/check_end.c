/* Checks the results of a schedule: the OUTPUT of every rank, the SCRATCH used and the bytes sent.
 *
 * Bytes are known by their origin, their offset in the INPUT of the rank from which they come. So
 * block i of rank r's OUTPUT has to be
 *
 *                        of rank       from offset
 *     all_reduce         all, summed   0
 *     reduce             all, summed   0
 *     reduce_scatter     all, summed   of block r in any rank's INPUT
 *     broadcast          root          0
 *     scatter            root          of block r in the root's INPUT
 *     all_gather         i             0
 *     gather             i             0
 *     all_to_all         i             of block r in rank i's INPUT
 *
 * Tested by tests/unit/collectives/prove/check_rules_test.c. */
#include "collectives/prove/check_inside.h"

struct wanted {
    bool sum;
    uint32_t rank;
    uint64_t origin;
};

static struct wanted wanted_in(const struct gyre_checker *c, const struct gyre_actor *a, uint32_t i)
{
    const struct gyre_slice *s = &a->slice;
    struct wanted wanted = {.sum = gyre_verb_reduces(s->verb)};
    wanted.rank = wanted.sum ? s->rank : gyre_verb_gathers(s->verb) ? i : s->root;
    if (gyre_verb_scatters(s->verb))
        wanted.origin = gyre_slice_in_block(&c->actor[wanted.rank].slice, s->rank).at;
    return wanted;
}

/* -- output ------------------------------------------------------------------------------------ */

static int check_value(const struct gyre_checker *c, const struct gyre_actor *a,
                       const struct wanted *wanted, const struct gyre_stretch *stretch)
{
    const struct gyre_value *value = &c->book.value[stretch->value];
    unsigned long long at = stretch->start;
    if (wanted->sum && !value->final)
        return gyre_check_fail_rank(
            c, a->slice.rank, "OUTPUT + %llu is not the result: no REDUCE marked FINAL made it",
            at);
    if (wanted->sum && c->algorithm->rank_order && value->prefix != c->n)
        return gyre_check_fail_rank(
            c, a->slice.rank, "OUTPUT + %llu is not the result: not summed in rank order", at);
    if (!wanted->sum && stretch->value != wanted->rank)
        return gyre_check_fail_rank(c, a->slice.rank,
                                    "OUTPUT + %llu is not the result: not rank %u's data", at,
                                    wanted->rank);
    return 0;
}

/* Checks that this stretch of an all-reduce is bracketed as on rank 0. Values are interned, so one
 * comparison is enough. */
static int check_bracketing(const struct gyre_checker *c, const struct gyre_actor *a,
                            const struct gyre_stretch *stretch)
{
    const struct gyre_stretches *first = &c->actor[0].output;
    if (a->slice.verb != GYRE_VERB_ALL_REDUCE)
        return 0;
    for (size_t i = gyre_stretches_find(first, stretch->start);
         i < first->count && first->stretch[i].start < stretch->end; i++)
        if (first->stretch[i].value != stretch->value)
            return gyre_check_fail_rank(c, a->slice.rank,
                                        "OUTPUT + %llu is bracketed otherwise than on rank 0",
                                        (unsigned long long)stretch->start);
    return 0;
}

static int check_block(struct gyre_checker *c, struct gyre_actor *a, uint32_t block)
{
    struct gyre_span span = gyre_slice_block(&a->slice, GYRE_OUTPUT, block);
    struct wanted wanted = wanted_in(c, a, block);
    uint64_t at = span.at, end = span.at + span.bytes;
    for (size_t i = gyre_stretches_find(&a->output, at); at < end; i++) {
        const struct gyre_stretch *stretch = &a->output.stretch[i];
        if (i == a->output.count || stretch->start > at)
            return gyre_check_fail_rank(c, a->slice.rank, "OUTPUT + %llu is never written",
                                        (unsigned long long)at);
        uint64_t origin = stretch->origin + (at - stretch->start);
        if (origin != wanted.origin + (at - span.at))
            return gyre_check_fail_rank(c, a->slice.rank,
                                        "OUTPUT + %llu ends as byte %llu of the data, not %llu",
                                        (unsigned long long)at, (unsigned long long)origin,
                                        (unsigned long long)(wanted.origin + (at - span.at)));
        int status = check_value(c, a, &wanted, stretch);
        if (status == 0)
            status = check_bracketing(c, a, stretch);
        if (status != 0)
            return status;
        at = stretch->end;
    }
    return 0;
}

int gyre_check_output(struct gyre_checker *c, struct gyre_actor *a)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < gyre_slice_blocks(&a->slice, GYRE_OUTPUT); i++)
        status = check_block(c, a, i);
    return status;
}

/* -- promises ---------------------------------------------------------------------------------- */

static int check_sent(const struct gyre_checker *c, const struct gyre_actor *a)
{
    uint64_t formula = c->algorithm->sent_bytes(&a->slice);
    if (formula == a->sent)
        return 0;
    return gyre_check_fail_rank(c, a->slice.rank, "it sends %llu bytes, but sent_bytes() says %llu",
                                (unsigned long long)a->sent, (unsigned long long)formula);
}

/* Checks the scratch of the fullest rank. An all-to-all may need less where some rank does not work
 * in place. */
static int check_scratch(const struct gyre_checker *c)
{
    uint64_t used = 0, promised = 0;
    for (uint32_t rank = 0; rank < c->n; rank++) {
        const struct gyre_actor *a = &c->actor[rank];
        used = a->scratch_used > used ? a->scratch_used : used;
        promised = a->extent.scratch_bytes > promised ? a->extent.scratch_bytes : promised;
        if (a->slice.verb == GYRE_VERB_ALL_TO_ALL && !a->slice.in_place)
            return 0;
    }
    if (used == promised)
        return 0;
    return gyre_check_fail_rank(
        c, 0, "the extent asks for %llu bytes of SCRATCH, but no rank uses over %llu",
        (unsigned long long)promised, (unsigned long long)used);
}

int gyre_check_promises(struct gyre_checker *c)
{
    int status = 0;
    for (uint32_t rank = 0; status == 0 && rank < c->n; rank++)
        status = check_sent(c, &c->actor[rank]);
    return status != 0 ? status : check_scratch(c);
}
