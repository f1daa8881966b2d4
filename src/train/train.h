/* Training: a model, its data and its options, over all ranks of a communicator. */
#ifndef GYRE_TRAIN_TRAIN_H
#define GYRE_TRAIN_TRAIN_H

#include "train/options.h"

struct gyre_comm;

/* The end of a run; equal on all ranks. */
struct gyre_train_outcome {
    uint64_t epochs, steps; /* done, those before a resume included */
    double loss, accuracy;  /* of the last epoch; -1: not counted */
    double test_accuracy;   /* -1: no test set */
    bool stopped;           /* a signal ended it early; saved if there is a place for it */
};

/* Trains. Collective. Told on rank 0's terminal, `terminal` (NULL: quiet).
 *   Errors: GYRE_INVALID for what the options or files say wrong, GYRE_MISMATCH where ranks differ,
 *           what a collective returned; the story is the same on all ranks. */
int gyre_train(struct gyre_comm *comm, const struct gyre_train_options *options, FILE *terminal,
               struct gyre_train_outcome *outcome, struct gyre_trouble *trouble);

/* Asks this process's training to save and stop after its step, on all ranks. For signal
 * handlers. */
void gyre_train_stop(void);

#endif
