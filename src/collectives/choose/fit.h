/* Finds prices from measured times: those with which the model (cost.h) explains the times best. */
#ifndef GYRE_COLLECTIVES_CHOOSE_FIT_H
#define GYRE_COLLECTIVES_CHOOSE_FIT_H

#include "collectives/choose/cost.h"

struct gyre_trial { /* one operation in one slice, and its measured time */
    const struct gyre_algorithm *algorithm;
    struct gyre_slice slice;
    enum gyre_link_kind near, far;
    double took_ns;
};

/* Changes the prices that occur in these trials and leaves the others. *tuning holds likely prices
 * before (the built-in ones), which decide where the trials cannot tell two prices apart. *kinds
 * gets the kinds of link that were priced, as bits. Returns how far the model is off from the
 * trials, in percent of their times, on average; or -ENOMEM. */
int gyre_fit(const struct gyre_trial *trial, uint32_t trials, struct gyre_tuning *tuning,
             uint32_t *kinds);

#endif
