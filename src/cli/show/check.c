/* gyre show --check: the checker's proof of schedules, of one number of ranks or of 1 to 16. It
 * proves each algorithm of the operation, or the one of --algo. Tested by
 * tests/program/cli/show.c. */
#include "cli/show/question.h"

#include "collectives/algorithms/table.h"
#include "collectives/prove/check.h"

#include <errno.h>

#define RANKS_LAST 16

/* Counts at the corners: nothing, fewer elements than ranks, one more, some for each. */
static int check_counts(const struct gyre_algorithm *algorithm, struct gyre_slice s,
                        unsigned *proved, struct gyre_trouble *trouble)
{
    const uint64_t counts[] = {0, 1, s.n - 1, s.n, s.n + 1, UINT64_C(64) * s.n + 3};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        s.count = s.stride = counts[i];
        if (!gyre_algorithm_builds(algorithm, &s))
            continue;
        int status = gyre_check_schedule(algorithm, &s, trouble);
        if (status != 0)
            return status == -ENOMEM ? status : GYRE_CORRUPT;
        ++*proved;
    }
    return 0;
}

static int check_roots(const struct gyre_algorithm *algorithm, struct gyre_slice s,
                       unsigned *proved, struct gyre_trouble *trouble)
{
    uint32_t roots = gyre_verb_has_root(s.verb) ? s.n : 1;
    int status = 0;
    for (s.root = 0; status == 0 && s.root < roots; s.root++)
        status = check_counts(algorithm, s, proved, trouble);
    return status;
}

static int check_algorithm(const struct gyre_show_question *q,
                           const struct gyre_algorithm *algorithm, struct gyre_trouble *trouble)
{
    bool one = q->word[RANKS] != NULL || q->word[NODES] != NULL;
    struct gyre_slice s = q->slice;
    uint32_t first = one ? s.n : 1, last = one ? s.n : RANKS_LAST;
    unsigned proved = 0;
    int status = 0;
    for (s.n = first; status == 0 && s.n <= last; s.n++)
        status = check_roots(algorithm, s, &proved, trouble);
    if (status == 0 && proved > 0)
        printf(one ? "%-18s%u schedules of %u ranks: proved\n"
                   : "%-18s%u schedules of 1 to %u ranks: proved\n",
               algorithm->name, proved, last);
    return status;
}

int gyre_show_check(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    int status = 0;
    for (const struct gyre_algorithm *const *it = gyre_algorithms; status == 0 && *it; it++)
        if ((*it)->verbs >> q->slice.verb & 1 && (!q->word[ALGO] || *it == q->algorithm))
            status = check_algorithm(q, *it, trouble);
    return status;
}
