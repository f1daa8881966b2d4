/* Makes the tables of struct gyre_layout (schedule.h), which say what ranks share a node. */
#ifndef GYRE_COLLECTIVES_SCHEDULE_LAYOUT_H
#define GYRE_COLLECTIVES_SCHEDULE_LAYOUT_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"

/* Makes the layout of n ranks. Ranks with equal `node[rank]` share a node; the numbers may be any
 * and have gaps. The layout counts nodes from 0, ascending by these numbers. All ranks of a
 * communicator must give equal arrays; `node` is not kept. GYRE_INVALID: no ranks, or too many.
 * -ENOMEM. */
int gyre_layout_create(const uint32_t *node, uint32_t n, struct gyre_layout **layout,
                       struct gyre_trouble *trouble);
void gyre_layout_destroy(struct gyre_layout *layout); /* NULL allowed */

/* Reads "4+2" (a node of four ranks, one of two) or "2x3" (two of three), in the order of ranks. *n
 * becomes the number of ranks. GYRE_INVALID with a sentence that names `flag` and the text;
 * -ENOMEM. */
int gyre_layout_read(const char *flag, const char *text, struct gyre_layout **layout, uint32_t *n,
                     struct gyre_trouble *trouble);

#endif
