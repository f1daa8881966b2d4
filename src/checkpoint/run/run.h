/* A run's checkpoint for the rooms above: gyre/checkpoint.h for a replica instead of a network, and
 * a load in two parts, between which rank 0 may look at the generation. */
#ifndef GYRE_CHECKPOINT_RUN_RUN_H
#define GYRE_CHECKPOINT_RUN_RUN_H

#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "model/network/replica.h"

#include <gyre/checkpoint.h>

int gyre_run_add_replica(struct gyre_checkpoint *checkpoint, struct gyre_replica *replica);

/* What was added last may be missing in a generation: then it keeps rank 0's. */
void gyre_run_allow_missing(struct gyre_checkpoint *checkpoint);

/* gyre_checkpoint_save(), told in `trouble`, with texts of rank 0 that no load compares. */
int gyre_run_save(struct gyre_checkpoint *checkpoint, const char *folder, uint64_t step,
                  const struct gyre_stored_text *note, uint64_t notes,
                  struct gyre_trouble *trouble);

/* Saves from now on leave the generation of this step where it is, however old it is; 0: none. */
void gyre_run_spare(struct gyre_checkpoint *checkpoint, uint64_t step);

/* Opens the newest generation. Behind success gyre_run_load() must follow. Collective. */
int gyre_run_open(struct gyre_checkpoint *checkpoint, const char *folder,
                  struct gyre_trouble *trouble);
const struct gyre_generation *gyre_run_generation(const struct gyre_checkpoint *checkpoint);

/* Loads it, unless it is refused: `refused` is a status of this rank's, told in `trouble`.
 * Collective. */
int gyre_run_load(struct gyre_checkpoint *checkpoint, int refused, uint64_t *step,
                  struct gyre_trouble *trouble);

/* Behind a load: the k-th tensor that the generation had not for this number of ranks, so that it
 * begins anew; NULL behind the last. */
const char *gyre_run_lost(const struct gyre_checkpoint *checkpoint, int k);

#endif
