/* The learning rate as a pure function of the step, so that a job which goes on after a stop needs
 * to remember nothing but where it was.
 *
 *     rate      ╱‾‾‾‾‾‾‾   constant     ╱‾‾|__      step: times gamma, every so many steps
 *              ╱                       ╱      |__
 *     warm-up ╱            cosine     ╱‾⟍
 *                                       ⟍__         half a wave down to `least`
 */
#ifndef GYRE_MODEL_LEARNING_LEARNING_RATE_H
#define GYRE_MODEL_LEARNING_LEARNING_RATE_H

#include "base/status.h"

#include <stdint.h>

enum gyre_rate_kind { GYRE_RATE_CONSTANT, GYRE_RATE_STEP, GYRE_RATE_COSINE };

extern const char *const gyre_rate_names[]; /* by kind, then NULL: "constant" */

struct gyre_rate_settings {
    enum gyre_rate_kind kind;
    double rate;
    uint64_t warmup; /* steps: the first has rate / warmup, the last of them the full rate */
    uint64_t every;  /* step: counted from the end of the warm-up */
    double gamma;    /* step */
    uint64_t total;  /* cosine: all steps with the warm-up; beyond them the rate stays at `least` */
    double least;    /* cosine */
};

/* GYRE_INVALID names the setting and its value. */
int gyre_rate_check(const struct gyre_rate_settings *settings, struct gyre_trouble *trouble);

/* Of a step, counted from 0. */
double gyre_rate_at(const struct gyre_rate_settings *settings, uint64_t step);

#endif
