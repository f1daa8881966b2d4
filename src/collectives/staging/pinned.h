/* Host memory that a device copies from and to: whole pages, locked where that is possible.
 *
 * Locking and unlocking may wait for all of a device's work, so both are done in quiet moments
 * (stream_wait.h) and while the fold queue has nothing to do. What is made between them stays
 * unlocked until it is used again, slower and otherwise the same; what is dropped between them is
 * kept until the next.
 *
 * All calls: owner of the fold queue. */
#ifndef GYRE_COLLECTIVES_STAGING_PINNED_H
#define GYRE_COLLECTIVES_STAGING_PINNED_H

#include "collectives/staging/fold_queue.h"

struct gyre_pinned {
    uint8_t *memory; /* NULL: none */
    uint64_t bytes;
    bool tried, locked;
};

/* -ENOMEM. */
int gyre_pinned_make(struct gyre_fold_queue *fold_queue, uint64_t bytes,
                     struct gyre_pinned *pinned);

/* Locks it where that has not been tried. Before it is used again. */
void gyre_pinned_lock(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned);

/* No work uses it any more. */
void gyre_pinned_drop(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned);

#endif
