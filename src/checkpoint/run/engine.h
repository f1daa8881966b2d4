/* What a replica's list is made of. */
#ifndef GYRE_CHECKPOINT_RUN_ENGINE_H
#define GYRE_CHECKPOINT_RUN_ENGINE_H

#include "model/network/replica.h"

#include <gyre/checkpoint.h>

/* The engine that stands at *ddp when a pass begins. */
int gyre_run_add_engine(struct gyre_checkpoint *checkpoint, struct gyre_ddp *const *ddp);

/* Running means. */
int gyre_run_add_running(struct gyre_checkpoint *checkpoint, struct gyre_replica *replica);

/* The optimiser and the loss scale. */
int gyre_run_add_optimizer(struct gyre_checkpoint *checkpoint, struct gyre_replica *replica);

#endif
