/* Names of classes, in the order of their numbers: whole numbers by value, then other names by
 * their bytes. */
#ifndef GYRE_DATA_CLASSES_H
#define GYRE_DATA_CLASSES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define GYRE_CLASSES_MOST 65536

struct gyre_classes {
    uint64_t count; /* 0: classes have no names but their numbers */
    char **name;
};

/* Sorts the names of all labels, each once. Where the labels are the whole numbers from 0 on, there
 * are none. `source` is the name of the file in texts of trouble. Deinit takes a zeroed record
 * too. */
int gyre_classes_of(struct gyre_classes *classes, const char *source, char *const *label,
                    uint64_t labels, struct gyre_trouble *trouble);
void gyre_classes_deinit(struct gyre_classes *classes);

/* Writes the number of a label. Where there are names, the label is one of them; otherwise it is a
 * whole number from 0 to 2^31 - 1. Returns false where it is none. */
bool gyre_classes_find(const struct gyre_classes *classes, const char *label, int64_t *number);

/* All names in one text, a line each, to be freed (NULL: no memory); and back. */
char *gyre_classes_text(const struct gyre_classes *classes);
int gyre_classes_read(struct gyre_classes *classes, const char *text, struct gyre_trouble *trouble);

int gyre_classes_copy(struct gyre_classes *to, const struct gyre_classes *from,
                      struct gyre_trouble *trouble);

#endif
