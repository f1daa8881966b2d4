/* Colors: by them ranks tell in which part of a communicator each wants to be. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_COLORS_H
#define GYRE_COLLECTIVES_LIFECYCLE_COLORS_H

#include "collectives/comm/communicator.h"

/* A rank's choice: the part of that color, or none where the color is negative. */
struct gyre_color {
    int64_t color, key;
};

/* Tells every rank of `comm` the choices of all: writes n of them. As gyre_all_reduce(). */
int gyre_colors_tell(struct gyre_comm *comm, int color, int key, struct gyre_color *choice);

/* Lists the ranks of this rank's color in the order of their part: by key and, where keys are
 * equal, by rank. `rank` has room for all n. Returns how many there are; 0: no memory. */
uint32_t gyre_colors_list(const struct gyre_comm *comm, const struct gyre_color *choice,
                          uint32_t *rank);

/* Combines the tables of all ranks of `comm`, in place. As gyre_all_reduce(). */
int gyre_colors_reduce(struct gyre_comm *comm, void *table, uint64_t count, enum gyre_type type,
                       enum gyre_op op);

#endif
