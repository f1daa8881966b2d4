/* Starting the ranks of a training on this machine. */
#ifndef GYRE_CLI_TRAIN_RANKS_H
#define GYRE_CLI_TRAIN_RANKS_H

#include "launch/cores.h"
#include "train/train.h"

enum { GYRE_CLI_TRAIN_RANKS_MOST = 4096 };

/* Refuses a number of ranks that cannot train here: more than there are samples, or far more than
 * cores; and a start from within a job. */
int gyre_cli_train_check_start(int ranks, const struct gyre_train_options *options,
                               const struct gyre_cores *cores, struct gyre_trouble *trouble);

/* Replaces this process by `gyre run` with that many ranks of the training that argv asks for;
 * returns only with a failure. `measured` is the file for the figures of a run of --scaling, or
 * NULL. */
int gyre_cli_train_ranks(const char *ranks, const char *measured,
                         const struct gyre_train_options *options, char **argv,
                         struct gyre_trouble *trouble);

#endif
