/* Host memory that a device copies from and to: whole pages, locked where that is possible.
 *
 * Locking and unlocking may wait for all of a device's work, so both are done in quiet moments
 * (stream_wait.h) while the fold queue has nothing to do. Memory made between such moments stays
 * unlocked until its next use, slower and otherwise the same. Memory dropped between them is kept
 * until the next moment.
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

/* Makes memory, locked where that is possible now. -ENOMEM. */
int gyre_pinned_make(struct gyre_fold_queue *fold_queue, uint64_t bytes,
                     struct gyre_pinned *pinned);

/* Locks the pages where that has not been tried. To be called before each further use. */
void gyre_pinned_lock(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned);

/* Gives the memory up; no work uses the memory any more. */
void gyre_pinned_drop(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned);

#endif
