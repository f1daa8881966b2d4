/* The proof, round by round.
 *
 *     each round   build   the steps of every rank      does it fit what the extent promised?
 *                  form    each step alone              in bounds? whole elements? right buffer?
 *                  match   a message with its other     of equal length, in the same round?
 *                  apart   the steps of a rank          written twice? written and read?
 *                  move    values                       read before written? summed twice?
 *     at the end           OUTPUT of every rank, scratch used, bytes sent
 *
 * Why matching within the round excludes deadlock. Take the ranks that are in the lowest round k.
 * Each waits only for messages of round k. Its partner is in round k too and has posted its half,
 * or is beyond k and so has finished that half. So all of them finish round k. Channels may be
 * first in, first out: there is one message per pair, direction and round, and both ends name them
 * in the order of the rounds.
 *
 * Why one run proves every choice of in-place. Only OUTPUT differs: where INPUT and OUTPUT are one
 * buffer, writing OUTPUT[x] destroys INPUT[x]. So INPUT[x] may be read only while OUTPUT[x] is
 * unwritten or a copy of that very INPUT[x], and within a round INPUT and OUTPUT count as one
 * buffer. Then a rank reads the same values either way, its messages are the same, and no other
 * rank can tell which it chose. */
#include "collectives/check.h"

#include "base/size.h"
#include "collectives/check_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* -- telling ----------------------------------------------------------------------------------- */

static int fail_at(const struct gyre_checker *c, const char *where, const char *format,
                   va_list list)
{
    const struct gyre_slice *s = &c->actor[0].slice;
    char what[400];
    vsnprintf(what, sizeof what, format, list);
    return gyre_trouble_set(c->trouble, GYRE_INVALID,
                            "%s %s, n = %u, count = %llu, element = %u, root = %u: %s%s",
                            c->algorithm->name, gyre_verb_word[s->verb], s->n,
                            (unsigned long long)s->count, s->element, s->root, where, what);
}

int gyre_check_fail_rank(const struct gyre_checker *c, uint32_t rank, const char *format, ...)
{
    char where[40];
    va_list list;
    snprintf(where, sizeof where, "rank %u: ", rank);
    va_start(list, format);
    int status = fail_at(c, where, format, list);
    va_end(list);
    return status;
}

int gyre_check_fail_step(const struct gyre_checker *c, const struct gyre_actor *a,
                         const struct gyre_step *step, const char *format, ...)
{
    char where[120];
    va_list list;
    snprintf(where, sizeof where,
             "rank %u, round %llu, step %u (%s %llu bytes, %s + %llu): ", a->slice.rank,
             (unsigned long long)c->index, (unsigned)(step - a->round.step),
             gyre_step_kind_name[step->kind], (unsigned long long)step->length,
             gyre_buffer_name[step->at.buffer], (unsigned long long)step->at.offset);
    va_start(list, format);
    int status = fail_at(c, where, format, list);
    va_end(list);
    return status;
}

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

/* -- the end ----------------------------------------------------------------------------------- */

static bool is_result(const struct gyre_checker *c, const struct gyre_slice *s,
                      const struct gyre_stretch *stretch)
{
    const struct gyre_value *value = &c->book.value[stretch->value];
    if (s->verb == GYRE_VERB_BROADCAST)
        return stretch->value == s->root;
    return value->final && (value->rank_order || !c->algorithm->rank_order);
}

/* Is [start, end) of rank 0 bracketed as `value` is? Values are interned, so one comparison says
 * it. */
static bool same_on_rank_0(const struct gyre_checker *c, const struct gyre_stretch *stretch)
{
    const struct gyre_stretches *first = &c->actor[0].output;
    for (size_t i = gyre_stretches_find(first, stretch->start);
         i < first->count && first->stretch[i].start < stretch->end; i++)
        if (first->stretch[i].value != stretch->value)
            return false;
    return true;
}

static int check_output(struct gyre_checker *c, struct gyre_actor *a)
{
    uint64_t at = 0;
    for (size_t i = 0; i < a->output.count; at = a->output.stretch[i++].end) {
        const struct gyre_stretch *stretch = &a->output.stretch[i];
        if (stretch->start != at)
            break;
        if (stretch->origin != stretch->start)
            return gyre_check_fail_rank(
                c, a->slice.rank, "OUTPUT + %llu ends as byte %llu of the data",
                (unsigned long long)at, (unsigned long long)stretch->origin);
        if (!is_result(c, &a->slice, stretch))
            return gyre_check_fail_rank(
                c, a->slice.rank, "OUTPUT + %llu is not the result: %s", (unsigned long long)at,
                a->slice.verb == GYRE_VERB_BROADCAST  ? "not the root's"
                : c->book.value[stretch->value].final ? "not summed in rank order"
                                                      : "no REDUCE marked FINAL made it");
        if (!same_on_rank_0(c, stretch))
            return gyre_check_fail_rank(c, a->slice.rank,
                                        "OUTPUT + %llu is bracketed otherwise than on rank 0",
                                        (unsigned long long)at);
    }
    if (at != c->bytes)
        return gyre_check_fail_rank(c, a->slice.rank, "OUTPUT + %llu is never written",
                                    (unsigned long long)at);
    return 0;
}

static int check_sent(struct gyre_checker *c, struct gyre_actor *a)
{
    uint64_t formula = c->algorithm->sent_bytes(&a->slice);
    if (formula == a->sent)
        return 0;
    return gyre_check_fail_rank(c, a->slice.rank, "it sends %llu bytes, but sent_bytes() says %llu",
                                (unsigned long long)a->sent, (unsigned long long)formula);
}

static int check_scratch(struct gyre_checker *c)
{
    uint64_t used = 0, promised = 0;
    for (uint32_t rank = 0; rank < c->n; rank++) {
        const struct gyre_actor *a = &c->actor[rank];
        used = a->scratch_used > used ? a->scratch_used : used;
        promised = a->extent.scratch_bytes > promised ? a->extent.scratch_bytes : promised;
    }
    if (used == promised)
        return 0;
    return gyre_check_fail_rank(
        c, 0, "the extent asks for %llu bytes of SCRATCH, but no rank uses over %llu",
        (unsigned long long)promised, (unsigned long long)used);
}

/* -- set up and take down ---------------------------------------------------------------------- */

static int init_actor(struct gyre_checker *c, const struct gyre_slice *slice, uint32_t rank)
{
    struct gyre_actor *a = &c->actor[rank];
    a->slice = *slice;
    a->slice.rank = rank;
    a->extent = c->algorithm->extent(&a->slice);
    a->round.step_max = a->extent.step_max;
    a->round.source_max = a->extent.source_max;
    a->round.step = calloc((size_t)a->extent.step_max + 1, sizeof *a->round.step);
    a->round.source = calloc((size_t)a->extent.source_max + 1, sizeof *a->round.source);
    return a->round.step == NULL || a->round.source == NULL ? -ENOMEM : 0;
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
    c->bytes = slice->count * slice->element;
    c->actor = calloc(c->n, sizeof *c->actor);
    if (c->actor == NULL)
        return -ENOMEM;
    int status = gyre_value_book_init(&c->book, c->n);
    for (uint32_t rank = 0; status == 0 && rank < c->n; rank++)
        status = init_actor(c, slice, rank);
    return status != 0 ? status : init_rooms(c);
}

static void deinit(struct gyre_checker *c)
{
    for (uint32_t rank = 0; c->actor != NULL && rank < c->n; rank++) {
        struct gyre_actor *a = &c->actor[rank];
        free(a->round.step);
        free(a->round.source);
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

static int check_question(const struct gyre_algorithm *algorithm, const struct gyre_slice *s,
                          struct gyre_trouble *trouble)
{
    uint64_t bytes;
    if (s->n < 1 || s->element < 1 || s->root >= s->n ||
        !gyre_mul_u64(s->count, s->element, &bytes))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "no such slice: n = %u, root = %u, count = %llu, element = %u",
                                s->n, s->root, (unsigned long long)s->count, s->element);
    if (!gyre_algorithm_builds(algorithm, s))
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s does not build operation %u here",
                                algorithm->name, (unsigned)s->verb);
    return 0;
}

static int check_rounds(struct gyre_checker *c)
{
    uint64_t rounds = c->actor[0].extent.rounds;
    int status = 0;
    for (uint32_t rank = 1; rank < c->n; rank++)
        if (c->actor[rank].extent.rounds != rounds)
            return gyre_check_fail_rank(c, rank, "its extent has %llu rounds, rank 0's has %llu",
                                        (unsigned long long)c->actor[rank].extent.rounds,
                                        (unsigned long long)rounds);
    for (c->index = 0; status == 0 && c->index < rounds; c->index++)
        status = check_round(c);
    if (status == 0 && rounds > 0 && !c->last_round_used)
        return gyre_check_fail_rank(c, 0, "nobody does anything in the last of %llu rounds",
                                    (unsigned long long)rounds);
    return status;
}

int gyre_check_schedule(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                        struct gyre_trouble *trouble)
{
    int status = check_question(algorithm, slice, trouble);
    if (status != 0)
        return status;
    struct gyre_checker c = {.algorithm = algorithm, .trouble = trouble};
    status = init(&c, slice);
    if (status == 0)
        status = check_rounds(&c);
    if (status == 0)
        status = for_all(&c, check_output);
    if (status == 0)
        status = for_all(&c, check_sent);
    if (status == 0)
        status = check_scratch(&c);
    if (status == -ENOMEM)
        gyre_trouble_set(trouble, -ENOMEM, "no memory to check %s on %u ranks", algorithm->name,
                         slice->n);
    deinit(&c);
    return status;
}
