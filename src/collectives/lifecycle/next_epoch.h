/* The way from one epoch's communicator to the next: what gyre_shrink() and gyre_grow() share. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_NEXT_EPOCH_H
#define GYRE_COLLECTIVES_LIFECYCLE_NEXT_EPOCH_H

#include "collectives/comm/communicator.h"

/* Has all ranks say that they are here, on a communicator that has not failed, and ends it with
 * that text: no failure, because another follows. On failure *trouble tells why. */
int gyre_epoch_supersede(struct gyre_comm *world, const char *ended_by,
                         struct gyre_trouble *trouble);

/* Waits for all ranks of an epoch that has just been joined. */
int gyre_epoch_meet(struct gyre_comm *world, struct gyre_trouble *trouble);

/* Ends all work of a communicator that has failed or is superseded. */
void gyre_epoch_settle(struct gyre_comm *world);

/* Ends the watches of a superseded epoch, so that nobody waits for goodbyes. All its ranks have
 * called. */
void gyre_epoch_end(const struct gyre_comm *world, const char *ended_by);

/* Makes the communicator of the next epoch. `made_by` is the name of the call, alike on all. */
int gyre_epoch_open(struct gyre_comm *old, const char *made_by, struct gyre_company *company,
                    const struct gyre_job *job, struct gyre_comm **made,
                    struct gyre_trouble *trouble);

#endif
