/* The samples of a data set on the device that computes, where they fit. A batch is gathered there,
 * and only the numbers of its samples travel:
 *
 *     open    all samples, once ─────────────▶ device: every row
 *     rows    the numbers of a batch ─────────▶         rows of the batch
 *
 * They fit where they take an eighth of the device's memory at most, or GYRE_RESIDENT bytes.
 * Otherwise, and on the CPU, batches come from the host. */
#ifndef GYRE_MODEL_NETWORK_RESIDENT_H
#define GYRE_MODEL_NETWORK_RESIDENT_H

#include "data/dataset.h"
#include "model/nets/model.h"

struct gyre_resident {
    struct gyre_processor *on;
    float *all, *rows; /* the device's; NULL: batches come from the host */
    uint64_t *index;   /* the device's */
    uint64_t features, batch;
};

/* For batches of up to so many samples. A set that does not fit is no failure; the log says so. The
 * processor outlives it; deinit takes every state. */
int gyre_resident_init(struct gyre_resident *resident, struct gyre_processor *on,
                       const struct gyre_dataset *set, uint64_t batch,
                       struct gyre_trouble *trouble);
void gyre_resident_deinit(struct gyre_resident *resident);

static inline bool gyre_resident_has(const struct gyre_resident *resident)
{
    return resident->all != NULL;
}

/* Gathers those samples, which are samples of the set: *rows is the device's memory until the next
 * call. */
int gyre_resident_rows(struct gyre_resident *resident, const uint64_t *index, uint64_t count,
                       const float **rows, struct gyre_trouble *trouble);

#endif
