/* gyre plan: its questions to the cost model. Every algorithm is asked in slices of the usual
 * length, and what could win by another cut in its best one. Where the time goes is found by asking
 * for the same cut again, without one price after the other:
 *
 *     as it is ── no latency ── no folds ── no links inside ── 0        each difference is a part
 *
 * Tested by tests/program/cli/plan.sh. */
#include "cli/plan/inside.h"

#include "collectives/algorithms/table.h"

#include <errno.h>
#include <stdlib.h>

#define FORMULA_ERROR 31u /* percent: so much too short it was at most (docs/plan.md) */

/* The slice that the choice cuts. */
static struct gyre_slice chosen_slice(const struct gyre_question *q,
                                      const struct gyre_choice *choice)
{
    struct gyre_slice slice = q->whole;
    slice.count = gyre_slice_elements(slice.count, slice.element, choice->slice_bytes);
    slice.small = choice->small;
    return slice;
}

/* The formula's price. */
static int sum_up(const struct gyre_question *q, const struct gyre_choice *choice,
                  const struct gyre_link_kinds *link_kinds, uint64_t *ps)
{
    struct gyre_slice slice = chosen_slice(q, choice);
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    int status =
        gyre_cost_slice(choice->algorithm, &slice, link_kinds, GYRE_COST_NEVER - 1, &walk, &cost);
    gyre_walk_deinit(&walk);
    *ps = gyre_cost_total(&cost, q->whole.count, slice.count, choice->lanes);
    return status;
}

int gyre_plan_reprice(const struct gyre_question *q, const struct gyre_choice *choice,
                      const struct gyre_link_kinds *link_kinds, uint64_t *ps)
{
    struct gyre_question question = *q;
    struct gyre_choice again = *choice;
    question.link_kinds = *link_kinds;
    if (choice->work == 0)
        return sum_up(q, choice, link_kinds, ps);
    int status = gyre_choice_rehearse(&question, &again, GYRE_PLAN_WORK);
    *ps = again.cost_ps;
    return status;
}

static void drop_latency(struct gyre_tuning *tuning)
{
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++)
        tuning->link[kind].latency_ns = tuning->link[kind].message_ns =
            tuning->link[kind].grant_ns = 0;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static int find_parts(const struct gyre_question *q, const struct gyre_choice *choice,
                      struct gyre_plan_parts *parts)
{
    struct gyre_tuning tuning = *q->link_kinds.tuning;
    struct gyre_link_kinds link_kinds = q->link_kinds;
    uint64_t all = 0, no_latency = 0, no_folds = 0, network = 0;
    link_kinds.tuning = &tuning;
    int status = gyre_plan_reprice(q, choice, &link_kinds, &all);
    drop_latency(&tuning);
    if (status == 0)
        status = gyre_plan_reprice(q, choice, &link_kinds, &no_latency);
    tuning.fold_kib_ps = 0;
    if (status == 0)
        status = gyre_plan_reprice(q, choice, &link_kinds, &no_folds);
    tuning.link[link_kinds.near].kib_ps = 0;
    if (status == 0)
        status = gyre_plan_reprice(q, choice, &link_kinds, &network);
    /* Without one price messages may come in a worse order, and the whole may take longer. */
    no_latency = lower(all, no_latency);
    no_folds = lower(no_latency, no_folds);
    network = lower(no_folds, network);
    *parts = (struct gyre_plan_parts){.latency = all - no_latency,
                                      .folds = no_latency - no_folds,
                                      .inside = no_folds - network,
                                      .network = network};
    return status;
}

/* -- memory and connections -------------------------------------------------------------------- */

struct peers {
    uint8_t *met; /* of every rank; written with `mark` once it is a peer */
    struct gyre_round round;
    uint64_t near, far;
};

static void meet_round(struct peers *peers, const struct gyre_slice *slice, uint8_t mark)
{
    const uint32_t *node = slice->layout->node;
    for (uint32_t i = 0; i < peers->round.steps; i++) {
        const struct gyre_step *step = &peers->round.step[i];
        if (step->kind == GYRE_REDUCE || step->kind == GYRE_COPY || peers->met[step->peer] == mark)
            continue;
        peers->met[step->peer] = mark;
        *(node[step->peer] == node[slice->rank] ? &peers->near : &peers->far) += 1;
    }
}

/* The peers of one rank, if it has more than those before it. */
static int meet(struct peers *peers, const struct gyre_algorithm *algorithm,
                struct gyre_slice *slice, uint8_t mark)
{
    struct gyre_extent extent = algorithm->extent(slice);
    struct peers own = {.met = peers->met};
    int status = gyre_round_init(&own.round, &extent);
    for (uint64_t i = 0; status == 0 && i < extent.rounds; i++) {
        gyre_round_clear(&own.round);
        algorithm->round(slice, i, &own.round);
        meet_round(&own, slice, mark);
    }
    gyre_round_deinit(&own.round);
    peers->near = own.near > peers->near ? own.near : peers->near;
    peers->far = own.far > peers->far ? own.far : peers->far;
    return status;
}

static int measure_row(const struct gyre_question *q, struct gyre_plan_row *row)
{
    struct gyre_slice slice = chosen_slice(q, &row->choice);
    const uint32_t looked_at[] = {0, 1, slice.n / 2, slice.n - 1};
    struct peers peers = {.met = calloc(slice.n, 1)};
    int status = peers.met != NULL ? 0 : -ENOMEM;
    for (uint8_t i = 0; status == 0 && i < 4; i++) {
        slice.rank = looked_at[i];
        status = meet(&peers, row->choice.algorithm, &slice, (uint8_t)(i + 1));
    }
    free(peers.met);
    slice.rank = 0;
    row->near = peers.near;
    row->far = peers.far;
    row->scratch_bytes = row->choice.algorithm->extent(&slice).scratch_bytes * row->choice.lanes;
    row->rounds = row->choice.algorithm->extent(&slice).rounds * (q->whole.count / slice.count);
    slice.count = q->whole.count;
    row->sent_bytes = row->choice.algorithm->sent_bytes(&slice);
    return status;
}

/* -- the rows ---------------------------------------------------------------------------------- */

/* The time that decides the row's rank. The formula may be too short, so what was not rehearsed has
 * to be ahead by that. */
static uint64_t ranked_ps(const struct gyre_plan_row *row, uint64_t ps)
{
    const uint64_t most = (uint64_t)(((unsigned __int128)ps * 100) / (100 - FORMULA_ERROR));
    return row->choice.work != 0 || ps > GYRE_COST_NEVER / 2 ? ps : most;
}

static int by_cost(const void *a, const void *b)
{
    const struct gyre_plan_row *x = a, *y = b;
    uint64_t x_ps = ranked_ps(x, x->choice.cost_ps), y_ps = ranked_ps(y, y->choice.cost_ps);
    return (x_ps > y_ps) - (x_ps < y_ps);
}

static uint64_t ranked_slow_ps(const struct gyre_plan_row *row)
{
    return ranked_ps(row, row->slow_ps);
}

/* The question about the cluster as it would be without the slow node. */
static struct gyre_question without_slow_node(const struct gyre_question *q)
{
    struct gyre_question question = *q;
    question.link_kinds.slow_kib_ps = 0;
    return question;
}

/* Adds the algorithm in slices of the usual length. */
static int add_row(const struct gyre_question *q, const struct gyre_algorithm *algorithm,
                   struct gyre_plan_answer *answer, struct gyre_trouble *trouble)
{
    struct gyre_question question = without_slow_node(q);
    question.algorithm = algorithm;
    question.uncut = true;
    int status = gyre_choose(&question, &answer->row[answer->rows].choice, NULL, trouble);
    answer->rows += status == 0;
    return status;
}

/* Rehearses the row, as it is and in its best cut if that could make it the best. */
static int finish_row(const struct gyre_question *q, struct gyre_plan_row *row, uint64_t best_ps,
                      uint64_t *work_left, struct gyre_trouble *trouble)
{
    struct gyre_question question = without_slow_node(q);
    question.algorithm = row->choice.algorithm;
    question.work_most = lower(*work_left, GYRE_PLAN_WORK);
    int status = row->choice.cost_ps / GYRE_CUT_GAIN < best_ps
                     ? gyre_choose(&question, &row->choice, NULL, trouble)
                     : gyre_choice_rehearse(&question, &row->choice, question.work_most);
    *work_left -= lower(*work_left, 3 * row->choice.work);
    if (status == 0 && q->link_kinds.slow_kib_ps != 0)
        status = gyre_plan_reprice(q, &row->choice, &q->link_kinds, &row->slow_ps);
    return status == 0 ? measure_row(q, row) : status;
}

static int price_algorithms(const struct gyre_question *q, struct gyre_plan_answer *answer,
                            struct gyre_trouble *trouble)
{
    const char *why;
    int status = 0;
    for (int i = 0; status == 0 && gyre_algorithms[i] != NULL; i++)
        if (answer->rows < GYRE_PLAN_ROWS_MAX && gyre_choosable(q, gyre_algorithms[i], &why))
            status = add_row(q, gyre_algorithms[i], answer, trouble);
    qsort(answer->row, answer->rows, sizeof *answer->row, by_cost);
    const uint64_t best_ps = answer->row[0].choice.cost_ps;
    uint64_t work_left = GYRE_PLAN_WORK_ALL;
    for (uint32_t i = 0; status == 0 && i < answer->rows; i++)
        status = finish_row(q, &answer->row[i], best_ps, &work_left, trouble);
    qsort(answer->row, answer->rows, sizeof *answer->row, by_cost);
    for (uint32_t i = 1; i < answer->rows; i++)
        if (ranked_slow_ps(&answer->row[i]) < ranked_slow_ps(&answer->row[answer->best_if_slow]))
            answer->best_if_slow = i;
    return status;
}

/* -- a training step --------------------------------------------------------------------------- */

/* Buckets are equal, the last gradients of the backward pass are ready at its end, and one bucket
 * is reduced after the other:
 *
 *     backward  ▐▐▐▐▐▐▐▐
 *     buckets     ▐▐▐▐▐▐▐▐▐      what stands behind the end of the backward pass is exposed */
static void hide_buckets(struct gyre_plan_step *step, uint64_t compute_ps)
{
    uint64_t free_at = 0;
    for (uint64_t i = 1; i <= step->buckets; i++) {
        uint64_t ready = compute_ps / step->buckets * i;
        free_at = (ready > free_at ? ready : free_at) + step->bucket_ps;
    }
    step->alone_ps = step->buckets * step->bucket_ps;
    step->exposed_ps = less(free_at, compute_ps);
    step->hidden_ps = less(step->alone_ps, step->exposed_ps);
}

static void cut_model(const struct gyre_plan_asked *a, struct gyre_plan_step *step)
{
    step->parameters = a->layers * (a->width * a->width + a->width);
    step->buckets = (step->parameters * 4 + a->bucket_bytes - 1) / a->bucket_bytes;
    step->bucket_bytes = (step->parameters + step->buckets - 1) / step->buckets * 4;
}

int gyre_plan_answer(const struct gyre_plan_asked *a, struct gyre_plan_answer *answer,
                     struct gyre_trouble *trouble)
{
    struct gyre_question q = a->question;
    struct gyre_plan_step *step = &answer->step;
    if (a->layers != 0) {
        cut_model(a, step);
        q.whole.element = 4;
        q.whole.count = q.whole.stride = step->bucket_bytes / 4;
    }
    int status = price_algorithms(&q, answer, trouble);
    if (status == 0 && answer->rows == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID, "no algorithm builds this %s",
                                gyre_verb_word[q.whole.verb]);
    const struct gyre_plan_row *best = &answer->row[answer->best_if_slow];
    if (status == 0)
        status = find_parts(&q, &best->choice, &answer->parts);
    if (status == 0 && a->layers != 0) {
        step->bucket_ps = best->slow_ps != 0 ? best->slow_ps : best->choice.cost_ps;
        step->algorithm = best->choice.algorithm;
        hide_buckets(step, a->compute_ns * 1000);
    }
    return status != -ENOMEM
               ? status
               : gyre_trouble_set(trouble, status, "no memory to plan for %u ranks", q.whole.n);
}
