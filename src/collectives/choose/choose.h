/* Choosing: which algorithm, in which slices, in how many lanes. A pure function of what is equal
 * on all ranks, so all ranks choose alike without a word. */
#ifndef GYRE_COLLECTIVES_CHOOSE_CHOOSE_H
#define GYRE_COLLECTIVES_CHOOSE_CHOOSE_H

#include "collectives/choose/cost.h"
#include "collectives/choose/limits.h"

struct gyre_question {
    struct gyre_slice whole; /* the operation in one slice; rank, small, in_place do not count */
    struct gyre_link_kinds link_kinds;
    bool mapped;   /* every pair of ranks shares memory: the binder makes one pass of it */
    bool in_order; /* only algorithms that fold over ranks 0 … n-1 */
    /* Settled by the user already; NULL, 0, 0: nothing. */
    const struct gyre_algorithm *algorithm;
    uint64_t slice_bytes;
    uint32_t lanes;
};

struct gyre_choice {
    const struct gyre_algorithm *algorithm;
    uint64_t slice_bytes;
    uint64_t small; /* as in struct gyre_slice */
    uint32_t lanes;
    uint64_t cost_ps; /* predicted; GYRE_COST_NEVER: not computed */
};

/* Finds the cheapest way, and for *second (may be NULL) the cheapest with another algorithm; that
 * is NULL if there is none. On mapped memory `direct` is taken without computing anything, unless
 * `second` is asked for. GYRE_INVALID with the story: the settled algorithm, or every one, cannot
 * build the operation; -ENOMEM. */
int gyre_choose(const struct gyre_question *question, struct gyre_choice *best,
                struct gyre_choice *second, struct gyre_trouble *trouble);

/* May this algorithm be chosen for the question? If not, *why says so in a few words. */
bool gyre_choosable(const struct gyre_question *question, const struct gyre_algorithm *algorithm,
                    const char **why);

/* Elements of a slice of `slice_bytes`: a multiple of 64, or all `count` where that would not make
 * two slices. */
uint64_t gyre_slice_elements(uint64_t count, uint32_t element, uint64_t slice_bytes);

#endif
