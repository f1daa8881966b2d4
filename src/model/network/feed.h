/* Batches whose samples do not fit the device, on their way while the step before computes: through
 * two pieces of page-locked memory as large as a batch, by a carrier with a stream of its own, to
 * two places on the device in turn:
 *
 *     carrier   rows 1 → A │ rows 2 → B │            rows 3 → A │
 *     device               │ step 1: A  ────────────│ step 2: B ─────────────│ step 3: A
 *
 * A place is written when the step that has read it has ended; the carrier's stream waits for that,
 * not the host. */
#ifndef GYRE_MODEL_NETWORK_FEED_H
#define GYRE_MODEL_NETWORK_FEED_H

#include "model/nets/model.h"

/* Rows of a batch in host memory, and what tells it from all others until the next forget(). */
struct gyre_feed_batch {
    const float *x;
    uint64_t samples, epoch, cursor;
};

struct gyre_feed {
    struct gyre_processor *on, *carrier;
    float *rows[2]; /* the device's */
    int turn;       /* of the batch that was taken last */
    uint64_t features;
    struct gyre_feed_batch ahead; /* x NULL: none */
    uint64_t taken, met;          /* batches; those of them that were there already */
};

/* For batches of up to so many rows. No memory is no failure: there is no feed, as the log says.
 * Where memory cannot be locked, bringing is slower. The processor outlives it; deinit takes every
 * state, and tells the log how many batches came ahead. */
void gyre_feed_init(struct gyre_feed *feed, struct gyre_processor *on, uint64_t batch,
                    uint64_t features);
void gyre_feed_deinit(struct gyre_feed *feed);

static inline bool gyre_feed_has(const struct gyre_feed *feed)
{
    return feed->carrier != NULL;
}

/* The rows' memory of the next batch that is taken; NULL: there is no feed. */
static inline const float *gyre_feed_next(const struct gyre_feed *feed)
{
    return feed->rows[!feed->turn];
}

/* Before the passes of a batch: *rows is its memory on the device, until the next call but one. */
int gyre_feed_take(struct gyre_feed *feed, const struct gyre_feed_batch *batch, const float **rows,
                   struct gyre_trouble *trouble);

/* Behind the passes of the one before: the batch that will be taken next. x may change at once. */
int gyre_feed_bring(struct gyre_feed *feed, const struct gyre_feed_batch *batch,
                    struct gyre_trouble *trouble);

/* Other batches will be taken than the one that was brought. */
void gyre_feed_forget(struct gyre_feed *feed);

#endif
