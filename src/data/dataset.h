/* A data set in memory: samples of one shape, and what is wanted of each.
 *
 *     source                     x                          y
 *     wine, wine:test            built in, standardised     class
 *     random:1000,784,10         uniform in [0, 1)          class; for benches
 *     FILE.safetensors           x: f32 or u8 / 255         y: i64 (classes) or f32 (targets)
 *     images[.gz]                IDX, pixels / 255          the labels file beside it
 *     FILE.csv                   all columns but the last   the last: a class, or a number
 *
 * Files are mapped and checked when they are opened: sizes that agree, labels that are classes,
 * numbers that are numbers. After that a sample is always good. */
#ifndef GYRE_DATA_DATASET_H
#define GYRE_DATA_DATASET_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GYRE_DATASET_DIMS 4

struct gyre_dataset_options {
    const char *source; /* as above */
    const char *labels; /* the file with the labels, of IDX; NULL: found by its usual name */
    bool targets;       /* y is numbers to come near to, not classes */
};

struct gyre_dataset {
    uint64_t samples;
    uint32_t dims; /* of one sample */
    uint64_t shape[GYRE_DATASET_DIMS];
    uint64_t features; /* floats of a sample */
    uint64_t classes;  /* the greatest label + 1; 0: targets */
    uint64_t width;    /* of a target; 0: classes */

    const float *x; /* NULL: pixels */
    const uint8_t *pixels;
    const int64_t *label;
    const float *target;
    void *owned[2]; /* memory behind those, freed at the end */
    struct gyre_safetensors *file;
    struct gyre_idx *images;
};

/* Zeroes *set first. GYRE_INVALID or an errno with a text that names file, sample and value. */
int gyre_dataset_open(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble);
void gyre_dataset_close(struct gyre_dataset *set); /* takes a zeroed one too */

/* Copies samples index[0 … count - 1] to rows of x, and what is wanted to y: int64_t or `width`
 * floats each. Any thread. */
void gyre_dataset_gather(const struct gyre_dataset *set, const uint64_t *index, uint64_t count,
                         float *x, void *y);

/* The first sample that has a NaN or an infinity; `samples` if there is none. */
uint64_t gyre_dataset_find_nonfinite(const struct gyre_dataset *set);

/* A hash of shape and content: of all bytes up to 256 MiB, of evenly spread samples beyond. */
uint64_t gyre_dataset_hash(const struct gyre_dataset *set);

/* The same of one sample and what is wanted of it: for digests of who saw what. */
uint64_t gyre_dataset_sample_hash(const struct gyre_dataset *set, uint64_t index);

#endif
