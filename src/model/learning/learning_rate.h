/* The learning rate of gyre/model.h, as a pure function of the step.
 *
 *     rate      ╱‾‾‾‾‾‾‾   constant     ╱‾‾|__      step: times gamma, every so many steps
 *              ╱                       ╱      |__
 *     warm-up ╱            cosine     ╱‾⟍
 *                                       ⟍__         half a wave down to `least`
 */
#ifndef GYRE_MODEL_LEARNING_LEARNING_RATE_H
#define GYRE_MODEL_LEARNING_LEARNING_RATE_H

#include "base/status.h"

#include <gyre/model.h>

extern const char *const gyre_rate_names[]; /* by kind, then NULL: "constant" */

/* gyre_learning_rate_check(), told in `trouble`. */
int gyre_rate_check(const struct gyre_learning_rate *rate, struct gyre_trouble *trouble);

#endif
