/* CIFAR-10's binary files: records of 3,073 bytes, one behind the other.
 *
 *     label, 0 to 9 │ 1,024 red │ 1,024 green │ 1,024 blue │ label │ …
 *
 * The 1,024 bytes of a colour are 32 rows of 32 pixels, from the top. A file has no header, so only
 * its length and its labels can be wrong. */
#ifndef GYRE_DATA_CIFAR_H
#define GYRE_DATA_CIFAR_H

#include "base/status.h"

#include <stdint.h>

#define GYRE_CIFAR_CLASSES  10
#define GYRE_CIFAR_CHANNELS 3
#define GYRE_CIFAR_SIDE     32
#define GYRE_CIFAR_PIXELS   (GYRE_CIFAR_CHANNELS * GYRE_CIFAR_SIDE * GYRE_CIFAR_SIDE)
#define GYRE_CIFAR_RECORD   (1 + GYRE_CIFAR_PIXELS)

/* Counts the records of a file. Texts of trouble call the file `name`. GYRE_INVALID: none, or a
 * part of one. */
int gyre_cifar_count(const char *name, uint64_t length, uint64_t *records,
                     struct gyre_trouble *trouble);

/* Copies the pixels of `records` records, without their labels between them, and the labels.
 * GYRE_INVALID: a label is above 9. */
int gyre_cifar_take(const char *name, const uint8_t *bytes, uint64_t records, uint8_t *pixels,
                    int64_t *label, struct gyre_trouble *trouble);

#endif
