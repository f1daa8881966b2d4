/* Starting the ranks of a training on this machine. */
#ifndef GYRE_CLI_TRAIN_RANKS_H
#define GYRE_CLI_TRAIN_RANKS_H

#include "base/status.h"

/* Replaces this process by `gyre run` with that many ranks of the training that argv asks for;
 * returns only with a failure. */
int gyre_cli_train_ranks(const char *ranks, char **argv, struct gyre_trouble *trouble);

#endif
