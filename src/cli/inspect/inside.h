/* What the files of gyre inspect share. */
#ifndef GYRE_CLI_INSPECT_INSIDE_H
#define GYRE_CLI_INSPECT_INSIDE_H

#include "data/files/json_out.h"
#include "data/safetensors/safetensors.h"

#include <stdbool.h>

#define GYRE_INSPECT_NUMBER 32

/* The numbers of one tensor, as texts: whole numbers and those of unknown meaning have none, unless
 * it is a single whole number, which is both min and max. */
struct gyre_inspect_values {
    bool floats; /* nan and inf are counted, the other three hold finite numbers only */
    char min[GYRE_INSPECT_NUMBER], max[GYRE_INSPECT_NUMBER], mean[GYRE_INSPECT_NUMBER]; /* or "" */
    uint64_t nan, inf;
};

/* `exact`: as many digits as tell every number from the next. */
void gyre_inspect_values_of(const struct gyre_stored_tensor *tensor, bool exact,
                            struct gyre_inspect_values *values);

void gyre_inspect_print_json(const struct gyre_safetensors *file, const char *path, bool values);

/* Generations of a checkpoint's folder; returns the exit code. */
int gyre_inspect_folder(const char *folder, bool json);

#endif
