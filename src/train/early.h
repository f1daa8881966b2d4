/* What is refused before there are ranks. */
#ifndef GYRE_TRAIN_EARLY_H
#define GYRE_TRAIN_EARLY_H

#include "train/options.h"

/* Refuses more ranks than samples, where it costs little to count the samples. */
int gyre_train_check_ranks(const struct gyre_train_options *options, int ranks,
                           struct gyre_trouble *trouble);

/* Says so: GYRE_INVALID. */
int gyre_train_refuse_ranks(const struct gyre_train_options *options, int ranks, uint64_t samples,
                            struct gyre_trouble *trouble);

#endif
