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

struct gyre_cli_train_start {
    const char *ranks;    /* as given */
    const char *restarts; /* after failures, as given; NULL: none */
    const char *measured; /* the file for the figures of a run of --scaling, or NULL */
};

/* Replaces this process by `gyre run` with ranks of the training that argv asks for; returns only
 * with a failure. */
int gyre_cli_train_ranks(const struct gyre_cli_train_start *start,
                         const struct gyre_train_options *options, char **argv,
                         struct gyre_trouble *trouble);

#endif
