/* The page of `gyre show --html`: one file that plays schedules in a browser, without a network. */
#ifndef GYRE_CLI_SHOW_PAGE_PAGE_H
#define GYRE_CLI_SHOW_PAGE_PAGE_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"

#include <stdio.h>

#define GYRE_PAGE_RANKS_MAX    64  /* ranks that still have a place on the circle */
#define GYRE_PAGE_NUMBERS_MAX  16  /* ranks whose numbers are shown too … */
#define GYRE_PAGE_ELEMENTS_MAX 256 /* … if each has so few of them */

struct gyre_page_schedule {
    const struct gyre_algorithm *algorithm;
    struct gyre_slice slice; /* its rank is ignored */
};

/* Writes the frame of a page up to the mark, which it has. Returns what follows the mark. */
const char *gyre_page_put_until(FILE *out, const char *frame, const char *mark);

/* Writes the page: `count` schedules beside each other, each proved on the way. A schedule with a
 * defect is played up to the defect, which the page and `trouble` tell. 0, GYRE_CORRUPT with the
 * first defect, or -ENOMEM. */
int gyre_page_write(FILE *out, const struct gyre_page_schedule *schedule, unsigned count,
                    struct gyre_trouble *trouble);

#endif
