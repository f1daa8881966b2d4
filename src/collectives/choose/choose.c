/* Chooses in two steps:
 *
 *     every algorithm that builds the verb ──▶ its cost in slices of 1 MiB ──▶ the cheapest
 *     the cheapest, in other slices, with 1, 2, 4 lanes                    ──▶ the cut
 *
 * There are two steps because a plan must be made in microseconds. Above 4 MiB there is time to try
 * each algorithm in every cut, and an algorithm that sends many messages (a ring of many ranks,
 * direct) gains more by long slices than others do. A walk ends early where the algorithm is dearer
 * than the best so far. Of two algorithms at one price the choice is the one that keeps the order
 * of ranks, then the one that was walked first.
 *
 * The formula of cost.h finds who is good. Between machines the good ones are then rehearsed
 * message by message (collectives/rehearsal), as far as there is time, and the rehearsal decides.
 *
 * An algorithm that has two ways, chosen by `small` (direct: one-shot, two-shot), is priced in
 * both. */
#include "collectives/choose/choose.h"

#include "collectives/algorithms/table.h"
#include "collectives/rehearsal/rehearsal.h"

#include <errno.h>

#define SLICE_BYTES     (UINT64_C(1) << 20)
#define SLICE_LEAST     (UINT64_C(64) << 10)
#define SLICE_LONG      4u /* times the usual slice, at most */
#define LANES           2u
#define FEW_ROUNDS      UINT64_MAX
#define FEW_BYTES       1
#define SMALL_OPERATION (UINT64_C(4) << 20) /* above, fewer rounds never win */

uint64_t gyre_slice_elements(uint64_t count, uint32_t element, uint64_t slice_bytes)
{
    uint64_t per_slice = slice_bytes / element / 64 * 64;
    if (per_slice == 0)
        per_slice = 64;
    return count / 2 < per_slice ? count : per_slice;
}

bool gyre_choosable(const struct gyre_question *q, const struct gyre_algorithm *algorithm,
                    const char **why)
{
    *why = NULL;
    if (!(algorithm->verbs & 1u << q->whole.verb))
        *why = "it has no such schedule";
    else if (!gyre_algorithm_builds(algorithm, &q->whole))
        *why = "not for this type, reduction or layout";
    else if (q->in_order && gyre_verb_reduces(q->whole.verb) && !algorithm->rank_order)
        *why = "it does not sum in the order of ranks";
    return *why == NULL;
}

/* -- one candidate ----------------------------------------------------------------------------- */

#define FINALISTS_MAX 32u

struct chooser {
    const struct gyre_question *question;
    struct gyre_walk walk;
    int status;
    struct gyre_choice finalist[FINALISTS_MAX]; /* to be rehearsed */
    uint32_t finalists;
};

/* Whether candidates are rehearsed: ways between machines are what messages wait for. Inside a
 * machine cores are, and the formula was measured there. */
static bool rehearses(const struct gyre_question *q)
{
    return q->work_most != 0 && q->whole.layout != NULL && q->whole.layout->nodes > 1 &&
           q->link_kinds.far == GYRE_LINK_NETWORK;
}

/* The formula's price from which on a candidate is out, if `best` is the price of the best. */
static uint64_t limit_beside(const struct gyre_question *q, uint64_t best)
{
    return rehearses(q) && best < GYRE_COST_NEVER / 2 ? best + best / 2 : best;
}

static bool is_same_cut(const struct gyre_choice *a, const struct gyre_choice *b)
{
    return a->algorithm == b->algorithm && a->slice_bytes == b->slice_bytes;
}

static void send_to_final(struct chooser *chooser, const struct gyre_choice *c)
{
    uint32_t same = 0;
    while (same < chooser->finalists && !is_same_cut(&chooser->finalist[same], c))
        same++;
    if (rehearses(chooser->question) && c->cost_ps != GYRE_COST_NEVER &&
        same == chooser->finalists && same < FINALISTS_MAX)
        chooser->finalist[chooser->finalists++] = *c;
}

/* The number of blocks of a slice that are under way together. */
static uint64_t blocks_of(const struct gyre_question *q)
{
    bool many = gyre_verb_has_blocks(q->whole.verb);
    return many ? q->whole.n : 1;
}

/* Fills in the cost of *c, and the lanes where the user has not settled them; *c has the rest. A
 * cost above `limit` may come out as GYRE_COST_NEVER. */
static void price(struct chooser *chooser, struct gyre_choice *c, uint64_t limit)
{
    const struct gyre_question *q = chooser->question;
    struct gyre_slice slice = q->whole;
    struct gyre_cost cost;
    /* On mapped memory no rank waits for another between slices: all are priced as one. */
    if (q->link_kinds.near != GYRE_LINK_MAPPED)
        slice.count = gyre_slice_elements(slice.count, slice.element, c->slice_bytes);
    slice.small = c->small;
    int status =
        gyre_cost_slice(c->algorithm, &slice, &q->link_kinds, limit, &chooser->walk, &cost);
    c->cost_ps = GYRE_COST_NEVER;
    c->lanes = q->lanes ? q->lanes : LANES;
    if (status == -ENOMEM)
        chooser->status = status;
    if (status)
        return;
    for (uint32_t lanes = q->lanes ? q->lanes : 1; lanes <= (q->lanes ? q->lanes : 4); lanes *= 2) {
        uint64_t total = gyre_cost_total(&cost, q->whole.count, slice.count, lanes);
        if (total < c->cost_ps || (lanes == LANES && total == c->cost_ps)) {
            c->lanes = lanes;
            c->cost_ps = total;
        }
    }
}

static uint64_t usual_slice(const struct gyre_question *q)
{
    uint64_t bytes = SLICE_BYTES;
    while (bytes > SLICE_LEAST && bytes * blocks_of(q) > SLICE_BYTES)
        bytes /= 2;
    if (q->slice_bytes)
        bytes = q->slice_bytes;
    uint64_t most = q->mapped ? GYRE_MAPPED_SLICE / blocks_of(q) : UINT64_MAX;
    return bytes < most ? bytes : most;
}

/* Whether `small` changes what the algorithm does. */
static bool has_two_ways(const struct gyre_question *q, const struct gyre_algorithm *algorithm,
                         uint64_t slice_bytes)
{
    struct gyre_slice a = q->whole, b;
    a.count = gyre_slice_elements(a.count, a.element, slice_bytes);
    b = a;
    a.small = FEW_BYTES;
    b.small = FEW_ROUNDS;
    struct gyre_extent x = algorithm->extent(&a), y = algorithm->extent(&b);
    return x.rounds != y.rounds || x.scratch_bytes != y.scratch_bytes;
}

/* The cheaper of the algorithm's two ways. */
static struct gyre_choice candidate(struct chooser *chooser, const struct gyre_algorithm *algorithm,
                                    uint64_t slice_bytes, uint64_t limit)
{
    const struct gyre_question *q = chooser->question;
    struct gyre_choice few_bytes = {.algorithm = algorithm,
                                    .slice_bytes = slice_bytes,
                                    .small = q->mapped ? GYRE_EXCHANGE_MAX : FEW_BYTES};
    struct gyre_choice few_rounds = few_bytes;
    price(chooser, &few_bytes, limit);
    if (q->mapped || q->whole.count * q->whole.element > SMALL_OPERATION ||
        !has_two_ways(q, algorithm, slice_bytes))
        return few_bytes;
    few_rounds.small = FEW_ROUNDS;
    price(chooser, &few_rounds, few_bytes.cost_ps < limit ? few_bytes.cost_ps : limit);
    return few_rounds.cost_ps < few_bytes.cost_ps ? few_rounds : few_bytes;
}

/* Cuts *best into other slices where these cost less than *best and less than `limit`. */
static void choose_cut(struct chooser *chooser, struct gyre_choice *best, uint64_t limit)
{
    const struct gyre_question *q = chooser->question;
    uint64_t usual = usual_slice(q), all = q->whole.count * q->whole.element;
    if (q->slice_bytes || q->mapped || q->uncut)
        return;
    for (uint64_t bytes = usual / 4; bytes <= usual * SLICE_LONG && bytes < all; bytes *= 2) {
        struct gyre_choice c = {
            .algorithm = best->algorithm, .slice_bytes = bytes, .small = best->small};
        if (bytes < SLICE_LEAST || bytes == usual)
            continue;
        price(chooser, &c, best->cost_ps < limit ? best->cost_ps : limit);
        if (c.cost_ps < best->cost_ps)
            *best = c;
    }
}

/* -- all of them ------------------------------------------------------------------------------- */

static bool better(const struct gyre_choice *a, const struct gyre_choice *b)
{
    if (!b->algorithm || a->cost_ps != b->cost_ps)
        return !b->algorithm || a->cost_ps < b->cost_ps;
    return a->algorithm->rank_order && !b->algorithm->rank_order;
}

/* The algorithm with the fewest rounds. It is walked first, because then many others need not be
 * walked to the end. */
static const struct gyre_algorithm *shortest(const struct gyre_question *q)
{
    const struct gyre_algorithm *found = NULL;
    uint64_t fewest = UINT64_MAX;
    const char *why;
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it; it++) {
        uint64_t rounds = gyre_choosable(q, *it, &why) ? (*it)->extent(&q->whole).rounds : fewest;
        if (rounds < fewest) {
            fewest = rounds;
            found = *it;
        }
    }
    return found;
}

static void consider(struct chooser *chooser, const struct gyre_algorithm *algorithm,
                     struct gyre_choice *best, struct gyre_choice *second)
{
    const struct gyre_question *q = chooser->question;
    const char *why;
    if (!gyre_choosable(q, algorithm, &why))
        return;
    /* Without a second, a price above the best need not be exact. */
    uint64_t usual = usual_slice(q);
    uint64_t limit = limit_beside(q, second ? second->cost_ps : best->cost_ps);
    struct gyre_choice c = candidate(chooser, algorithm, usual, limit);
    send_to_final(chooser, &c);
    if (q->whole.count * q->whole.element > SLICE_LONG * usual &&
        c.cost_ps / GYRE_CUT_GAIN < limit) {
        struct gyre_choice uncut = c;
        choose_cut(chooser, &c, limit);
        if (c.slice_bytes != uncut.slice_bytes)
            send_to_final(chooser, &c);
    }
    if (better(&c, best)) {
        if (second)
            *second = *best;
        *best = c;
    } else if (second && better(&c, second)) {
        *second = c;
    }
}

static void choose_algorithm(struct chooser *chooser, struct gyre_choice *best,
                             struct gyre_choice *second)
{
    const struct gyre_question *q = chooser->question;
    const struct gyre_algorithm *first = q->algorithm ? q->algorithm : shortest(q);
    if (first)
        consider(chooser, first, best, second);
    for (const struct gyre_algorithm *const *it = gyre_algorithms; !q->algorithm && *it; it++)
        if (*it != first)
            consider(chooser, *it, best, second);
}

/* -- the final --------------------------------------------------------------------------------- */

int gyre_choice_rehearse(const struct gyre_question *q, struct gyre_choice *choice,
                         uint64_t work_most)
{
    struct gyre_rehearsal rehearsal = {.algorithm = choice->algorithm,
                                       .whole = q->whole,
                                       .lanes = choice->lanes,
                                       .link_kinds = &q->link_kinds,
                                       .unasked = q->unasked,
                                       .work_most = work_most};
    uint64_t ps, work;
    rehearsal.whole.small = choice->small;
    rehearsal.slice_count =
        gyre_slice_elements(q->whole.count, q->whole.element, choice->slice_bytes);
    int status = gyre_rehearse(&rehearsal, &ps, &work);
    choice->work = status == 0 && ps != GYRE_COST_NEVER ? work : 0;
    if (choice->work != 0)
        choice->cost_ps = ps;
    return status;
}

static void sort_finalists(struct chooser *chooser)
{
    for (uint32_t i = 1; i < chooser->finalists; i++) {
        struct gyre_choice c = chooser->finalist[i];
        uint32_t at = i;
        for (; at > 0 && better(&c, &chooser->finalist[at - 1]); at--)
            chooser->finalist[at] = chooser->finalist[at - 1];
        chooser->finalist[at] = c;
    }
}

/* Rehearses the finalists, the formula's best first, until the work is done. Keeps those that were
 * rehearsed: prices of both kinds are not compared. */
static void rehearse_finalists(struct chooser *chooser)
{
    uint64_t left = chooser->question->work_most;
    uint64_t most = limit_beside(chooser->question, chooser->finalist[0].cost_ps);
    uint32_t rehearsed = 0;
    for (uint32_t i = 0; i < chooser->finalists && chooser->status == 0; i++) {
        struct gyre_choice *c = &chooser->finalist[i];
        if (c->cost_ps > most)
            break;
        int status = gyre_choice_rehearse(chooser->question, c, left);
        chooser->status = status == -ENOMEM ? status : 0;
        if (c->work == 0)
            break;
        left -= c->work;
        chooser->finalist[rehearsed++] = *c;
    }
    chooser->finalists = rehearsed;
}

/* Another algorithm than the first finalist's, NULL: there is none. */
static const struct gyre_choice *other_finalist(const struct chooser *chooser)
{
    for (uint32_t i = 1; i < chooser->finalists; i++)
        if (chooser->finalist[i].algorithm != chooser->finalist[0].algorithm)
            return &chooser->finalist[i];
    return NULL;
}

/* The formula's choice stands where there was time for one algorithm only. */
static void run_final(struct chooser *chooser, struct gyre_choice *best, struct gyre_choice *second)
{
    sort_finalists(chooser);
    rehearse_finalists(chooser);
    sort_finalists(chooser);
    const struct gyre_choice *other = other_finalist(chooser);
    if (chooser->finalists == 0 || (other == NULL && chooser->question->algorithm == NULL))
        return;
    *best = chooser->finalist[0];
    if (second != NULL && other != NULL)
        *second = *other;
}

static int refuse_question(const struct gyre_question *q, struct gyre_trouble *trouble)
{
    const char *verb = gyre_verb_word[q->whole.verb], *why;
    if (!q->algorithm)
        return gyre_trouble_set(trouble, GYRE_INVALID, "no algorithm builds %s%s", verb,
                                q->in_order ? " in the order of ranks" : "");
    gyre_choosable(q, q->algorithm, &why);
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "algorithm \"%s\" does not build %s (%s); GYRE_ALGO=auto takes one that does",
        q->algorithm->name, verb, why ? why : "its rounds outgrow their extent");
}

/* Chooses by the model. The operation is priced as it will run: on mapped memory as one pass, or,
 * to compare, over messages. */
static int ask_price(const struct gyre_question *question, struct gyre_choice *best,
                     struct gyre_choice *second, struct gyre_trouble *trouble)
{
    struct chooser chooser = {.question = question};
    *best = (struct gyre_choice){.cost_ps = GYRE_COST_NEVER};
    if (second)
        *second = *best;
    choose_algorithm(&chooser, best, second);
    if (best->algorithm) {
        choose_cut(&chooser, best, best->cost_ps);
        send_to_final(&chooser, best);
    }
    run_final(&chooser, best, second);
    gyre_walk_deinit(&chooser.walk);
    if (chooser.status)
        return gyre_trouble_set(trouble, chooser.status, "no memory to choose an algorithm");
    return best->algorithm ? 0 : refuse_question(question, trouble);
}

/* Chooses `direct` on mapped memory: the binder turns it into one pass, and nothing is faster. */
static bool choose_mapped(const struct gyre_question *q, struct gyre_choice *best)
{
    const struct gyre_algorithm *taken =
        q->algorithm ? q->algorithm : gyre_algorithm_find("direct");
    const char *why;
    if (!q->mapped || !taken || !gyre_choosable(q, taken, &why))
        return false;
    *best = (struct gyre_choice){.algorithm = taken,
                                 .slice_bytes = usual_slice(q),
                                 .small = GYRE_EXCHANGE_MAX,
                                 .lanes = q->lanes ? q->lanes : LANES,
                                 .cost_ps = GYRE_COST_NEVER};
    return true;
}

/* Chooses on mapped memory with the prices and the runner-up, for people. */
static int compare_mapped(const struct gyre_question *q, struct gyre_choice *best,
                          struct gyre_choice *second, struct gyre_trouble *trouble)
{
    struct gyre_question fused = *q, others = *q;
    struct gyre_choice first;
    fused.link_kinds.near = fused.link_kinds.far = GYRE_LINK_MAPPED;
    fused.algorithm = best->algorithm;
    others.link_kinds.near = others.link_kinds.far = GYRE_LINK_SHM;
    int status = ask_price(&fused, best, NULL, trouble);
    if (!status)
        status = ask_price(&others, &first, second, trouble);
    if (!status && first.algorithm != best->algorithm)
        *second = first;
    return status;
}

int gyre_choose(const struct gyre_question *question, struct gyre_choice *best,
                struct gyre_choice *second, struct gyre_trouble *trouble)
{
    if (!choose_mapped(question, best))
        return ask_price(question, best, second, trouble);
    return second ? compare_mapped(question, best, second, trouble) : 0;
}
