/* How often each class was taken for each: counts, and the figures that follow from them. */
#ifndef GYRE_TRAINED_CONFUSION_H
#define GYRE_TRAINED_CONFUSION_H

#include "base/status.h"

#include <stdint.h>

struct gyre_confusion {
    uint64_t classes;
    uint64_t *count; /* [label][class]: samples of this label that were taken for this class */
    uint64_t samples, right;
};

/* -ENOMEM. Deinit takes a zeroed one too. */
int gyre_confusion_init(struct gyre_confusion *confusion, uint64_t classes,
                        struct gyre_trouble *trouble);
void gyre_confusion_deinit(struct gyre_confusion *confusion);

/* Counts a sample. Both are below `classes`. */
void gyre_confusion_add(struct gyre_confusion *confusion, uint64_t label, uint64_t class);

uint64_t gyre_confusion_labelled(const struct gyre_confusion *confusion, uint64_t label);
uint64_t gyre_confusion_taken(const struct gyre_confusion *confusion, uint64_t class);

/* Of the samples taken for a class, the share that are of it; of the samples of a class, the share
 * taken for it; the harmonic mean of both. -1 where there is no such sample. */
double gyre_confusion_precision(const struct gyre_confusion *confusion, uint64_t class);
double gyre_confusion_recall(const struct gyre_confusion *confusion, uint64_t class);
double gyre_confusion_f1(const struct gyre_confusion *confusion, uint64_t class);

#endif
