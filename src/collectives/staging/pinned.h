/* Host memory that a device copies from and to: whole pages, locked where that is possible.
 *
 * Locking and unlocking may wait for all of a device's work, so both are done in quiet moments
 * (stream_wait.h) while the fold queue has nothing to do. Between such moments memory comes from a
 * pool that was locked before the first stream was held. Where the pool is spent too, memory stays
 * unlocked until its next use: a copy then waits for itself. Memory dropped between quiet moments
 * is kept until the next one, unless the pool takes it back.
 *
 * All calls: owner of the fold queue. */
#ifndef GYRE_COLLECTIVES_STAGING_PINNED_H
#define GYRE_COLLECTIVES_STAGING_PINNED_H

#include "collectives/staging/fold_queue.h"

struct gyre_pinned {
    uint8_t *memory; /* NULL: none */
    uint64_t bytes;
    bool tried, locked;
    bool pooled; /* of the pool */
};

/* Makes the pool, where there is none yet; of no consequence where that fails. Before the first
 * stream is held. */
void gyre_pinned_open(struct gyre_fold_queue *fold_queue);

/* Makes memory, locked where that is possible now. -ENOMEM. */
int gyre_pinned_make(struct gyre_fold_queue *fold_queue, uint64_t bytes,
                     struct gyre_pinned *pinned);

/* Locks the pages where that has not been tried. To be called before each further use; what the
 * memory held is lost. */
void gyre_pinned_lock(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned);

/* Gives the memory up. `idle`: no work uses the memory any more, nor does any stream. */
void gyre_pinned_drop(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned, bool idle);

#endif
