/* gyre show: what its words mean. Each step settles one part of the question and trusts those
 * before it. Tested by tests/program/cli/show.c. */
#include "cli/show/question.h"

#include "base/env.h"
#include "base/size.h"
#include "cli/show/page/page.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"

#include <inttypes.h>
#include <string.h>

#define RANKS_MAX      (1 << 20)
#define ALGORITHMS_MAX 32
#define COUNTS_SUM_MAX (UINT64_C(1) << 40) /* elements */

const struct gyre_flag gyre_show_flags[FLAGS] = {
    [ALGO] = {"algo", 'a', "NAME", "the algorithm (the first below that builds the operation)"},
    [RANKS] = {"ranks", 'n', "COUNT", "how many ranks (4)"},
    [NODES] = {"nodes", 0, "LAYOUT", "ranks of each node: 4+2, 2x2 (one node)"},
    [COUNT] = {"count", 'c', "COUNT", "elements of the data, or of each block (4 for each rank)"},
    [COUNTS] = {"counts", 0, "LIST", "elements of each rank's block: 3,0,5"},
    [TYPE_BYTES] = {"type-bytes", 0, "BYTES", "size of an element (4)"},
    [ROOT] = {"root", 0, "RANK",
              "where a broadcast or scatter starts, a reduce or gather ends (0)"},
    [RANK] = {"rank", 'r', "RANK", "show this rank only"},
    [JSON] = {"json", 0, NULL, "print JSON instead of a table"},
    [RUN] = {"run", 0, NULL, "play it on small numbers, with every buffer after every round"},
    [CHECK] = {"check", 0, NULL, "prove it, for 1 to 16 ranks unless --ranks or --nodes is given"},
    [HTML] = {"html", 0, "FILE", "write a page that plays it in a browser; -: standard output"},
    [BESIDE] = {"beside", 0, "NAME", "with --html: play this algorithm beside the first"},
    [IN_PLACE] = {"in-place", 0, NULL, "with --run: INPUT and OUTPUT are one memory"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

/* The algorithm that --algo or --beside names. */
static int find_algorithm(const struct gyre_show_question *q, int flag,
                          const struct gyre_algorithm **algorithm, struct gyre_trouble *trouble)
{
    const char *names[ALGORITHMS_MAX];
    char name[32];
    int count = 0, index;
    for (; gyre_algorithms[count] != NULL && count < ALGORITHMS_MAX; count++)
        names[count] = gyre_algorithms[count]->name;
    snprintf(name, sizeof name, "--%s", gyre_show_flags[flag].name);
    int status = gyre_parse_word(name, q->word[flag], names, count, &index, trouble);
    if (status == 0)
        *algorithm = gyre_algorithms[index];
    return status;
}

static int check_builds(const struct gyre_algorithm *algorithm, const char *flag,
                        const struct gyre_slice *s, struct gyre_trouble *trouble)
{
    if ((algorithm->verbs >> s->verb & 1) == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s %s does not build %s", flag,
                                algorithm->name, gyre_verb_word[s->verb]);
    if (!gyre_algorithm_builds(algorithm, s))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s %s does not build %s for these ranks and blocks", flag,
                                algorithm->name, gyre_verb_word[s->verb]);
    return 0;
}

/* The one that was named, or the first that builds it. */
static int settle_algorithm(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    const struct gyre_slice *s = &q->slice;
    int status = q->word[ALGO] != NULL ? find_algorithm(q, ALGO, &q->algorithm, trouble) : 0;
    for (int i = 0; status == 0 && q->algorithm == NULL && gyre_algorithms[i] != NULL; i++)
        if (gyre_algorithm_builds(gyre_algorithms[i], s))
            q->algorithm = gyre_algorithms[i];
    if (status == 0 && q->algorithm == NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID, "no algorithm builds this %s",
                                gyre_verb_word[s->verb]);
    if (status == 0)
        status = check_builds(q->algorithm, "--algo", s, trouble);
    if (status == 0 && q->word[BESIDE] != NULL)
        status = find_algorithm(q, BESIDE, &q->beside, trouble);
    if (status == 0 && q->beside != NULL)
        status = check_builds(q->beside, "--beside", s, trouble);
    return status;
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

/* -- unequal blocks ---------------------------------------------------------------------------- */

/* Blocks on one side only, which are moved as they are, may be unequal. */
static bool takes_counts(enum gyre_verb verb)
{
    return gyre_verb_nests(verb) && !gyre_verb_reduces(verb);
}

static int read_count(struct gyre_show_question *q, uint32_t i, const char *word, size_t length,
                      struct gyre_trouble *trouble)
{
    char number[32];
    snprintf(number, sizeof number, "%.*s", (int)(length < 31 ? length : 31), word);
    int status = gyre_parse_size("--counts", number, &q->length[i], trouble);
    if (status == 0 && q->length[i] > COUNTS_SUM_MAX / GYRE_SHOW_COUNTS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--counts %s: block %u is too long",
                                q->word[COUNTS], i);
    return status;
}

/* One number for each rank, so they say how many there are; the blocks lie packed. */
static int settle_counts(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_slice *s = &q->slice;
    const char *word = q->word[COUNTS];
    if (!takes_counts(s->verb) || q->word[COUNT] != NULL || q->word[RANKS] != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--counts %s: one length for each rank, for all_gather, gather or "
                                "scatter, without --count and --ranks",
                                word);
    s->n = s->count = 0;
    for (bool more = true; more; s->n++) {
        size_t length = strcspn(word, ",");
        if (s->n == GYRE_SHOW_COUNTS_MAX)
            return gyre_trouble_set(trouble, GYRE_INVALID, "--counts: at most %d of them",
                                    GYRE_SHOW_COUNTS_MAX);
        int status = read_count(q, s->n, word, length, trouble);
        if (status != 0)
            return status;
        q->at[s->n] = s->n == 0 ? 0 : q->at[s->n - 1] + q->length[s->n - 1];
        s->count = q->length[s->n] > s->count ? q->length[s->n] : s->count;
        more = word[length] == ',';
        word += length + more;
    }
    *(gyre_verb_scatters(s->verb) ? &s->in : &s->out) = (struct gyre_blocks){q->at, q->length};
    return 0;
}

/* -- ranks and sizes --------------------------------------------------------------------------- */

static int settle_nodes(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_slice *s = &q->slice;
    uint32_t n = 0;
    int status = gyre_layout_read("--nodes", q->word[NODES], &q->layout, &n, trouble);
    if (status != 0)
        return status;
    if ((q->word[RANKS] != NULL || q->word[COUNTS] != NULL) && n != s->n)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--nodes %s: the nodes have %u ranks, not %u", q->word[NODES], n,
                                s->n);
    s->n = n;
    s->layout = q->layout;
    return 0;
}

static int settle_ranks(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_slice *s = &q->slice;
    s->n = 4;
    int status = settle_number(q, RANKS, 1, RANKS_MAX, &s->n, trouble);
    if (status == 0 && q->word[COUNTS] != NULL)
        status = settle_counts(q, trouble);
    if (status == 0 && q->word[NODES] != NULL)
        status = settle_nodes(q, trouble);
    q->ranks = (struct gyre_print_ranks){0, s->n};
    if (status == 0 && q->word[RANK] != NULL) {
        status = settle_number(q, RANK, 0, s->n - 1, &q->ranks.from, trouble);
        q->ranks.to = q->ranks.from + 1;
    }
    if (status == 0 && q->word[ROOT] != NULL && !gyre_verb_has_root(s->verb))
        return gyre_trouble_set(trouble, GYRE_INVALID, "--root %s: %s has no root", q->word[ROOT],
                                gyre_verb_word[s->verb]);
    return status != 0 ? status : settle_number(q, ROOT, 0, s->n - 1, &s->root, trouble);
}

static bool has_blocks(const struct gyre_slice *s)
{
    return gyre_verb_gathers(s->verb) || gyre_verb_scatters(s->verb);
}

/* Elements of the largest buffer. */
static uint64_t widest_block(const struct gyre_show_question *q)
{
    const struct gyre_slice *s = &q->slice;
    if (q->word[COUNTS] != NULL)
        return q->at[s->n - 1] + q->length[s->n - 1];
    return has_blocks(s) ? s->n * s->count : s->count;
}

static int settle_size(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_slice *s = &q->slice;
    uint64_t bytes;
    int status = 0;
    s->element = 4;
    if (q->word[COUNTS] == NULL)
        s->count = has_blocks(s) ? 4 : UINT64_C(4) * s->n;
    if (q->word[COUNT] != NULL)
        status = gyre_parse_size("--count", q->word[COUNT], &s->count, trouble);
    if (status == 0)
        status = settle_number(q, TYPE_BYTES, 1, 1 << 20, &s->element, trouble);
    s->stride = s->count;
    if (status == 0 &&
        (!gyre_mul_u64(s->count, s->element, &bytes) || bytes > INT64_MAX / RANKS_MAX))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--count %s: %" PRIu64 " elements of %u bytes are too many to cut",
                                q->word[COUNT], s->count, s->element);
    return status;
}

static int settle_check(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    static const int others[] = {COUNT, COUNTS, ROOT, RANK, JSON, RUN, IN_PLACE, HTML, BESIDE};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (q->word[others[i]] != NULL)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "--check proves every root and count: leave out --%s",
                                    gyre_show_flags[others[i]].name);
    if (q->slice.n > GYRE_SHOW_RUN_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--check proves at most %d ranks, not %u",
                                GYRE_SHOW_RUN_MAX, q->slice.n);
    return 0;
}

static int settle_html(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    static const int others[] = {RANK, JSON, RUN};
    if (q->word[HTML] == NULL)
        return q->word[BESIDE] == NULL
                   ? 0
                   : gyre_trouble_set(trouble, GYRE_INVALID,
                                      "--beside %s: two algorithms are played on a page, so it "
                                      "goes with --html",
                                      q->word[BESIDE]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (q->word[others[i]] != NULL)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "--html plays all ranks on a page: leave out --%s",
                                    gyre_show_flags[others[i]].name);
    if (q->slice.n > GYRE_PAGE_RANKS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--html draws at most %d ranks, not %u",
                                GYRE_PAGE_RANKS_MAX, q->slice.n);
    return 0;
}

static int settle_form(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    bool told = q->slice.verb == GYRE_VERB_ALL_TO_ALL;
    if (q->word[CHECK] != NULL)
        return settle_check(q, trouble);
    if (settle_html(q, trouble) != 0)
        return GYRE_INVALID;
    q->slice.in_place = told && q->word[IN_PLACE] != NULL;
    if (q->word[RUN] == NULL && q->word[IN_PLACE] != NULL && !told)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--in-place changes numbers, not steps: it goes with --run");
    if (q->word[RUN] != NULL && q->word[JSON] != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--run prints no JSON: give --run or --json");
    if (q->word[RUN] != NULL &&
        (q->slice.n > GYRE_SHOW_RUN_MAX || widest_block(q) > GYRE_SHOW_RUN_MAX))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--run prints all elements of all ranks after each round: at most "
                                "%d of each, not %" PRIu64 " of %u (large data: a larger "
                                "--type-bytes)",
                                GYRE_SHOW_RUN_MAX, widest_block(q), q->slice.n);
    return 0;
}

int gyre_show_settle(struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    int status = settle_ranks(q, trouble);
    if (status == 0)
        status = settle_size(q, trouble);
    if (status == 0)
        status = settle_algorithm(q, trouble);
    return status != 0 ? status : settle_form(q, trouble);
}

void gyre_show_forget(struct gyre_show_question *q)
{
    gyre_layout_destroy(q->layout);
}
