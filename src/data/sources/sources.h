/* Kinds of sources of a data set, one function each. */
#ifndef GYRE_DATA_SOURCES_SOURCES_H
#define GYRE_DATA_SOURCES_SOURCES_H

#include "data/dataset.h"

#include <errno.h>

/* Each fills a zeroed set: samples, dims, shape, x or pixels, y, and the memory behind them.
 * gyre_dataset_open() does the rest, and closes the set after a failure. */
int gyre_source_named(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble);
int gyre_source_wine(struct gyre_dataset *set, bool test, struct gyre_trouble *trouble);
int gyre_source_digits(struct gyre_dataset *set, bool test, struct gyre_trouble *trouble);
int gyre_source_random(struct gyre_dataset *set, const char *source, bool targets,
                       struct gyre_trouble *trouble);
int gyre_source_tensors(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                        struct gyre_trouble *trouble);
int gyre_source_images(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                       struct gyre_trouble *trouble);
int gyre_source_cifar(struct gyre_dataset *set, const char *source, struct gyre_trouble *trouble);
int gyre_source_table(struct gyre_dataset *set, const struct gyre_dataset_options *options,
                      struct gyre_trouble *trouble);

/* Whether gyre_source_named() opens a source; and the nearest name that it would open, or NULL. */
bool gyre_source_is_named(const char *source);
const char *gyre_source_near_name(const char *source);

/* Whether a source is one of CIFAR-10's files, by its name, or a folder. */
bool gyre_source_is_cifar(const char *source);

static inline int gyre_source_no_memory(const char *source, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory for the data set", source);
}

#endif
