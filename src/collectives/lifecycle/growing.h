/* The next epoch while its ranks join it: members and newcomers meet in a thread of each, and the
 * communicator that is to grow goes on meanwhile. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_GROWING_H
#define GYRE_COLLECTIVES_LIFECYCLE_GROWING_H

#include "collectives/comm/communicator.h"

/* Begins to make the communicator of `world` and of so many newcomers. Where no thread can be had
 * it is made at once. -ENOMEM. */
int gyre_growing_start(struct gyre_comm *world, uint32_t newcomers, struct gyre_trouble *trouble);

/* GYRE_AGAIN: this rank has not joined yet; 0: it has; otherwise why it could not. */
int gyre_growing_status(const struct gyre_comm *world, struct gyre_trouble *trouble);

/* How many newcomers join; 0: nobody does. NULL allowed. */
uint32_t gyre_growing_newcomers(const struct gyre_comm *world);

/* Meets all ranks of the next epoch there; this rank has joined. Whoever is through knows that all
 * are out of the old epoch. */
int gyre_growing_meet(const struct gyre_comm *world, struct gyre_trouble *trouble);

/* Waits until this rank has joined or failed to, and returns what it has made; NULL: it failed. */
struct gyre_comm *gyre_growing_take(struct gyre_comm *world);

/* Waits likewise. The old communicator's members can agree anew then: what was made stays, for its
 * watch to tell the newcomers of losses, but is found at its listener no more. */
void gyre_growing_settle(struct gyre_comm *world);

/* Waits likewise, and ends what was made: its ranks are told that status and why. Does nothing
 * where nobody joins. */
void gyre_growing_drop(struct gyre_comm *world, int status, const char *why);

#endif
