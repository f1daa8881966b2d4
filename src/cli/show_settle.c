/* gyre show: what its words mean. Each step settles one part of the question and trusts those
 * before it. */
#include "cli/show_question.h"

#include "base/env.h"
#include "base/size.h"
#include "collectives/layout.h"

#include <inttypes.h>

#define RANKS_MAX      (1 << 20)
#define ALGORITHMS_MAX 32

static int settle_algorithm(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    const char *name = q->word[ALGO] != NULL ? q->word[ALGO] : "ring";
    const char *names[ALGORITHMS_MAX];
    int count = 0, index;
    for (; gyre_algorithms[count] != NULL && count < ALGORITHMS_MAX; count++)
        names[count] = gyre_algorithms[count]->name;
    int status = gyre_parse_word("--algo", name, names, count, &index, trouble);
    if (status != 0)
        return status;
    q->algorithm = gyre_algorithms[index];
    if ((q->algorithm->verbs >> q->slice.verb & 1) == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--algo %s does not build %s", name,
                                gyre_verb_word[q->slice.verb]);
    return 0;
}

/* A number between `least` and `most`; *out stays where the flag was not given. */
static int settle_number(const struct gyre_show_question *q, int flag, int64_t least, int64_t most,
                         uint32_t *out, struct gyre_trouble *trouble)
{
    char name[32];
    int64_t number = *out;
    snprintf(name, sizeof name, "--%s", gyre_show_flags[flag].name);
    int status = q->word[flag] == NULL
                     ? 0
                     : gyre_parse_int(name, q->word[flag], least, most, &number, trouble);
    *out = (uint32_t)number;
    return status;
}

static uint32_t placed(const struct gyre_layout *layout)
{
    return layout->start[layout->nodes];
}

static int settle_nodes(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    if (q->word[NODES] == NULL)
        return 0;
    int status = gyre_layout_read("--nodes", q->word[NODES], &q->layout, &q->slice.n, trouble);
    q->slice.layout = q->layout;
    return status;
}

static int settle_ranks(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_slice *s = &q->slice;
    s->n = 4;
    int status = settle_nodes(q, trouble);
    if (status == 0)
        status = settle_number(q, RANKS, 1, RANKS_MAX, &s->n, trouble);
    if (status == 0 && q->layout && s->n != placed(q->layout))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--ranks %u and --nodes %s differ: the "
                                "nodes have %u ranks",
                                s->n, q->word[NODES], placed(q->layout));
    q->ranks = (struct gyre_print_ranks){0, s->n};
    if (status == 0 && q->word[RANK] != NULL) {
        status = settle_number(q, RANK, 0, s->n - 1, &q->ranks.from, trouble);
        q->ranks.to = q->ranks.from + 1;
    }
    if (status == 0 && q->word[ROOT] != NULL && s->verb != GYRE_VERB_BROADCAST)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--root %s: only a broadcast has a root",
                                q->word[ROOT]);
    return status != 0 ? status : settle_number(q, ROOT, 0, s->n - 1, &s->root, trouble);
}

static int settle_size(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_slice *s = &q->slice;
    uint64_t bytes;
    int status = 0;
    s->element = 4;
    s->count = UINT64_C(4) * s->n;
    if (q->word[COUNT] != NULL)
        status = gyre_parse_size("--count", q->word[COUNT], &s->count, trouble);
    if (status == 0)
        status = settle_number(q, TYPE_BYTES, 1, 1 << 20, &s->element, trouble);
    if (status == 0 &&
        (!gyre_mul_u64(s->count, s->element, &bytes) || bytes > INT64_MAX / RANKS_MAX))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--count %s: %" PRIu64 " elements of %u bytes are too many to cut",
                                q->word[COUNT], s->count, s->element);
    return status;
}

static int settle_form(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    if (q->word[RUN] == NULL && q->word[IN_PLACE] != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--in-place changes numbers, not steps: it goes with --run");
    if (q->word[RUN] != NULL && q->word[JSON] != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--run prints no JSON: give --run or --json");
    if (q->word[RUN] != NULL &&
        (q->slice.n > GYRE_SHOW_RUN_MAX || q->slice.count > GYRE_SHOW_RUN_MAX))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--run prints all elements of all ranks after each round: at most "
                                "%d of each, not %" PRIu64 " of %u (large data: a larger "
                                "--type-bytes)",
                                GYRE_SHOW_RUN_MAX, q->slice.count, q->slice.n);
    return 0;
}

int gyre_show_settle(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    int status = settle_algorithm(q, trouble);
    if (status == 0)
        status = settle_ranks(q, trouble);
    if (status == 0)
        status = settle_size(q, trouble);
    return status != 0 ? status : settle_form(q, trouble);
}
