/* Batches of a data set in the order of a sampler, gathered into memory of their own. Where the
 * data may have to come from a disk, a thread gathers them ahead of time.
 *
 *     sampler ─▶ indices ─▶ gather ─▶ slot 0 │ slot 1 │ slot 2      ahead = 2
 *                                       ▲ in use      ▲ being filled
 */
#ifndef GYRE_TRAIN_LOADER_H
#define GYRE_TRAIN_LOADER_H

#include "base/status.h"
#include "data/dataset.h"

#include <gyre/sampler.h>

struct gyre_loader;

struct gyre_batch {
    uint64_t samples;       /* of this rank; 0: none in this step */
    const uint64_t *index;  /* the samples, by number */
    const float *x;         /* NULL where rows are left */
    const void *y;          /* int64_t classes, or targets */
    uint64_t epoch, cursor; /* the position behind the batch */
    bool last;              /* the epoch ends with this batch */
};

/* `set` and `sampler` live longer and are the loader's until it is destroyed. A batch is this
 * rank's part of `span` samples, at most `room`. `ahead`: batches gathered by a thread while one is
 * in use; 0: no thread. */
int gyre_loader_create(struct gyre_loader **loader, const struct gyre_dataset *set,
                       struct gyre_sampler *sampler, uint64_t span, uint64_t room, int ahead,
                       struct gyre_trouble *trouble);
void gyre_loader_destroy(struct gyre_loader *loader); /* takes NULL */

/* Batches have no x from here on: whoever uses them gathers it by `index`. Before begin. */
void gyre_loader_leave_rows(struct gyre_loader *loader);

/* Goes to a position; batches gathered ahead are forgotten. */
int gyre_loader_begin(struct gyre_loader *loader, uint64_t epoch, uint64_t cursor,
                      struct gyre_trouble *trouble);

/* The batch that next() will give, where a thread gathers ahead; waits for it. GYRE_AGAIN: there is
 * none to look at. */
int gyre_loader_look_ahead(struct gyre_loader *loader, struct gyre_batch *batch);

/* The next batch of the epoch, valid until the next call; GYRE_AGAIN at the end of the epoch. */
int gyre_loader_next(struct gyre_loader *loader, struct gyre_batch *batch,
                     struct gyre_trouble *trouble);

#endif
