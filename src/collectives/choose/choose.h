/* Chooses the algorithm, the slices and the number of lanes of an operation. The choice is a pure
 * function of what is equal on all ranks, so all ranks choose alike without a message. */
#ifndef GYRE_COLLECTIVES_CHOOSE_CHOOSE_H
#define GYRE_COLLECTIVES_CHOOSE_CHOOSE_H

#include "collectives/choose/cost.h"
#include "collectives/choose/limits.h"

#define GYRE_CUT_GAIN 2 /* no cut makes an algorithm faster by this factor */

struct gyre_question {
    /* The operation in one slice; its rank, small and in_place are ignored. */
    struct gyre_slice whole;
    struct gyre_link_kinds link_kinds;
    /* Every pair of ranks shares memory: the binder makes one pass of the schedule. */
    bool mapped;
    bool in_order; /* only algorithms that fold over ranks 0 … n-1 */
    /* The user's settings; NULL, 0 and 0: none. */
    const struct gyre_algorithm *algorithm;
    uint64_t slice_bytes;
    uint32_t lanes;
    bool uncut; /* only slices of the usual length, for who asks about many algorithms */
    /* The messages and rounds that may be rehearsed (collectives/rehearsal) to find the best of
     * those that the formula finds good; 0: the formula alone. */
    uint64_t work_most;
    uint64_t unasked; /* as in struct gyre_rehearsal, of those */
};

/* The work of a choice that a communicator makes: a third of a millisecond. */
#define GYRE_CHOOSE_WORK 2000

struct gyre_choice {
    const struct gyre_algorithm *algorithm;
    uint64_t slice_bytes;
    uint64_t small; /* as in struct gyre_slice */
    uint32_t lanes;
    uint64_t cost_ps; /* as the model predicts; GYRE_COST_NEVER: not computed */
    uint64_t work;    /* of the rehearsal that found the cost; 0: the formula did */
};

/* Finds the cheapest choice, and in *second (may be NULL) the cheapest with another algorithm,
 * whose `algorithm` is NULL if there is none. On mapped memory `direct` is taken without computing
 * anything, unless `second` is given. GYRE_INVALID with the story: the user's algorithm, or every
 * one, cannot build the operation. -ENOMEM. */
int gyre_choose(const struct gyre_question *question, struct gyre_choice *best,
                struct gyre_choice *second, struct gyre_trouble *trouble);

/* Rehearses the choice, if it takes at most so much work, and writes its cost_ps and its work. Not
 * 0: as gyre_rehearse(). */
int gyre_choice_rehearse(const struct gyre_question *question, struct gyre_choice *choice,
                         uint64_t work_most);

/* Whether the algorithm may be chosen for the question. If not, *why says why in a few words. */
bool gyre_choosable(const struct gyre_question *question, const struct gyre_algorithm *algorithm,
                    const char **why);

/* The number of elements in a slice of `slice_bytes`: a multiple of 64, or all `count` where that
 * multiple would not make two slices. */
uint64_t gyre_slice_elements(uint64_t count, uint32_t element, uint64_t slice_bytes);

#endif
