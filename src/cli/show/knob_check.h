/* Values of knobs, checked as gyre_init() would. */
#ifndef GYRE_CLI_SHOW_KNOB_CHECK_H
#define GYRE_CLI_SHOW_KNOB_CHECK_H

#include "base/status.h"
#include "knobs/knobs.h"

/* Can the text be the knob's value? 0, or GYRE_INVALID and the sentence. What needs a file or a
 * table (GYRE_ALGO, GYRE_TUNE_FILE, …) is not looked into. */
int gyre_knob_check(const struct gyre_knob *knob, const char *text, struct gyre_trouble *trouble);

#endif
