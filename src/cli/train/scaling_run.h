/* One run of --scaling. */
#ifndef GYRE_CLI_TRAIN_SCALING_RUN_H
#define GYRE_CLI_TRAIN_SCALING_RUN_H

#include "report/scaling.h"
#include "train/train.h"

/* Says `about` on standard error, trains on run->ranks ranks as argv asks for, waits for their end
 * and fills in the figures of `run`. Writes into `load` what else the machine did meanwhile
 * (base/machine/load.h); "": it was quiet. A negative status says that the run failed or was
 * stopped; GYRE_INVALID: it was refused. */
int gyre_cli_scaling_run(struct gyre_scaling_run *run, const char *about,
                         const struct gyre_train_options *options, char **argv, char load[512],
                         struct gyre_trouble *trouble);

#endif
