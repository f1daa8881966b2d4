/* gyre train --scaling 1,2,4: one training on several numbers of ranks, and how its speed grows. */
#ifndef GYRE_CLI_TRAIN_SCALING_H
#define GYRE_CLI_TRAIN_SCALING_H

#include "train/train.h"

/* What is asked for beside the options of the training. */
struct gyre_cli_scaling {
    const char *list;     /* "1,2,4" */
    const char *markdown; /* the table's file; NULL: none */
    const char *ranks;    /* --ranks, which is refused; NULL: not given */
};

/* GYRE_INVALID for options that make no sense with --scaling. */
int gyre_cli_scaling_check(const struct gyre_cli_scaling *scaling,
                           const struct gyre_train_options *options, struct gyre_trouble *trouble);

/* Runs the training that argv asks for on each number of ranks, one after another, and prints the
 * table; options->svg is the drawing's file. GYRE_INVALID or another negative status names the run
 * that failed. */
int gyre_cli_scaling(const struct gyre_cli_scaling *scaling,
                     const struct gyre_train_options *options, char **argv,
                     struct gyre_trouble *trouble);

#endif
