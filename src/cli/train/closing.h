/* The last lines of a training: what it came to, and the commands that may follow. */
#ifndef GYRE_CLI_TRAIN_CLOSING_H
#define GYRE_CLI_TRAIN_CLOSING_H

#include "train/train.h"

/* The command that was typed, as its rank 0 knows it. */
struct gyre_cli_command {
    const char *tool; /* "build/gyre" */
    int ranks;        /* that --ranks started; 0: another launcher did, or nobody */
    bool launched;    /* by another launcher */
    char **words;     /* behind "train", without --ranks */
};

void gyre_cli_train_close(FILE *to, const struct gyre_cli_command *command,
                          const struct gyre_train_options *options,
                          const struct gyre_train_outcome *outcome);

#endif
