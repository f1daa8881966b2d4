/* A data set in memory: samples of one shape, and a label or target for each.
 *
 *     source                     x                          y
 *     wine, wine:test            built in, standardised     class
 *     digits, digits:test        built in, 8 x 8 pixels     class
 *     mnist, mnist:test          IDX, in this folder        class
 *     cifar10, cifar10:test      CIFAR-10, in this folder   class
 *     random:1000,784,10         uniform in [0, 1)          class; for benches
 *     FILE.safetensors           x: f32 or u8 / 255         y: i64 (classes) or f32 (targets)
 *     images[.gz]                IDX, pixels / 255          the labels file beside it
 *     FOLDER, FILE.bin           CIFAR-10, pixels / 255     class, also by name
 *     FILE.csv                   all columns but one        that one: a class, or a number
 *
 * A file is mapped and checked when it is opened: sizes agree, labels are classes, numbers are
 * finite. After that every sample is valid. */
#ifndef GYRE_DATA_DATASET_H
#define GYRE_DATA_DATASET_H

#include "base/status.h"
#include "data/classes.h"
#include "data/scale.h"

#include <stdbool.h>
#include <stdint.h>

#define GYRE_DATASET_DIMS 4

struct gyre_dataset_options {
    const char *source;                 /* one of the sources above */
    const char *labels;                 /* the labels file of IDX; NULL: found by its usual name */
    bool targets;                       /* y are targets, numbers to approximate, not classes */
    const char *label_column;           /* of a CSV: a name, "first" or "last"; NULL: the last */
    const struct gyre_classes *classes; /* labels of a CSV are these; NULL: the set's own */
    bool wide;                          /* of a CSV: kept as fp64 for gyre_dataset_scale() */
    bool may_lack_y;                    /* the source may have samples only */
    uint64_t features; /* with may_lack_y: a CSV of as many columns has no y; 0: each has one */
};

struct gyre_dataset {
    const char *source; /* the caller's */
    uint64_t samples;
    uint32_t dims; /* of one sample */
    uint64_t shape[GYRE_DATASET_DIMS];
    uint64_t features; /* floats of a sample */
    uint64_t classes;  /* the greatest label + 1; 0: no labels */
    uint64_t width;    /* of a target; 0: no targets */

    const float *x; /* NULL: pixels */
    const uint8_t *pixels;
    const int64_t *label;
    const float *target;
    struct gyre_classes names; /* of the classes */
    uint64_t rows;             /* of the source */
    double *wide;              /* x of all rows, before gyre_dataset_scale(); NULL: is not kept */
    uint64_t *row;             /* of each sample, in x and y; NULL: its number */
    void *owned[3];            /* the memory of x, y and the rows, where this set owns it */
    struct gyre_safetensors *file;
    struct gyre_idx *images;
};

/* Opens a data set; zeroes *set first. GYRE_INVALID or an errno with a text that names file, sample
 * and value. */
int gyre_dataset_open(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble);
void gyre_dataset_close(struct gyre_dataset *set); /* also a zeroed set */

/* Moves a part of the samples to *part: as many as `share` of them, rounded up. The set keeps the
 * others, and their memory, which must outlive *part. The part is the one that scikit-learn's
 * train_test_split(test_size=share, random_state=seed) takes; both keep the order of the file.
 * GYRE_INVALID where either would be empty. */
int gyre_dataset_split(struct gyre_dataset *set, struct gyre_dataset *part, double share,
                       uint32_t seed, struct gyre_trouble *trouble);

/* Finds mean and deviation of each feature over the samples of the set, and not of a part that was
 * moved away. The caller deinits *scale, also after a failure.
 *   GYRE_INVALID where the set is not one that was opened `wide`, -ENOMEM. */
int gyre_dataset_fit(const struct gyre_dataset *set, struct gyre_scale *scale,
                     struct gyre_trouble *trouble);

/* Standardises all rows, those of a part too, and frees what was kept as fp64; with a scale of 0
 * columns it only does the latter.
 *   GYRE_INVALID where the set is not one that was opened `wide`, or has another number of
 *   features. */
int gyre_dataset_scale(struct gyre_dataset *set, const struct gyre_scale *scale,
                       struct gyre_trouble *trouble);

/* The row of the source that a sample is. */
static inline uint64_t gyre_dataset_row(const struct gyre_dataset *set, uint64_t index)
{
    return set->row ? set->row[index] : index;
}

/* Copies samples index[0 … count - 1] to rows of x, and their classes or targets to y: an int64_t
 * or `width` floats each; a set that has neither writes no y. Either may be NULL: it is not wanted.
 * Any thread. */
void gyre_dataset_gather(const struct gyre_dataset *set, const uint64_t *index, uint64_t count,
                         float *x, void *y);

/* Returns the first sample with a NaN or an infinity; `samples`: there is none. */
uint64_t gyre_dataset_find_nonfinite(const struct gyre_dataset *set);

/* Returns a hash of shape and content: of all bytes up to 256 MiB, of evenly spread samples
 * beyond. */
uint64_t gyre_dataset_hash(const struct gyre_dataset *set);

/* Returns a hash of one sample and its class or target, for digests of the samples that a rank
 * saw. */
uint64_t gyre_dataset_sample_hash(const struct gyre_dataset *set, uint64_t index);

#endif
