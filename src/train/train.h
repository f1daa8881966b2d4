/* Training: a model, its data and its options, over all ranks of a communicator. */
#ifndef GYRE_TRAIN_TRAIN_H
#define GYRE_TRAIN_TRAIN_H

#include "train/options.h"

struct gyre_comm;

/* The samples by which epochs are compared. */
enum gyre_train_judge { GYRE_TRAIN_BY_TRAINING, GYRE_TRAIN_BY_TEST, GYRE_TRAIN_BY_VALIDATION };

/* The best epoch so far, those before a resume included: the one of the greatest accuracy, of
 * equally accurate ones the one of the least loss. Targets have a loss only. */
struct gyre_train_best {
    int64_t epoch, step;   /* from 1; 0: no epoch has ended */
    int64_t judge;         /* enum gyre_train_judge */
    double loss, accuracy; /* -1: not counted */
};

/* What a model makes of a set. */
struct gyre_train_figure {
    const char *of;   /* the set, as the options call it */
    const char *part; /* which part of it; "": all */
    uint64_t samples;
    double loss, accuracy; /* means; -1: not counted */
};

/* The end of a run; equal on all ranks. */
struct gyre_train_outcome {
    uint64_t epochs, steps; /* done, those before a resume included */
    uint64_t resumed;       /* of these steps, done before the resume */
    double seconds;         /* since gyre_train() was called */
    double loss, accuracy;  /* of the last epoch; -1: not counted */
    double test_accuracy;   /* -1: no test set */
    struct gyre_train_best best;
    bool impatient; /* --patience ended it, or had before */
    bool left;      /* this rank has left, and the others go on */
    bool stopped;   /* a signal ended it early; saved if there is a place for it */
};

/* Before gyre_init(): loads CUDA where the options ask for it, so that each rank takes a device. */
void gyre_train_load(const struct gyre_train_options *options);

/* Trains, or with --evaluate tells what the weights make of the data. Collective. Told on rank 0's
 * `terminal` (NULL: quiet). With --elastic *comm may become another communicator; the caller ends
 * whichever it is. Where *comm is NULL this process joins a training that runs, and *comm becomes
 * the communicator of all; NULL still, where it was not taken in.
 *   Errors: GYRE_INVALID for what the options or files say wrong, or where ranks differ in them;
 *           GYRE_CORRUPT where their weights differ; what a collective returned. The story is the
 *           same on all ranks. */
int gyre_train(struct gyre_comm **comm, const struct gyre_train_options *options, FILE *terminal,
               struct gyre_train_outcome *outcome, struct gyre_trouble *trouble);

/* Asks this process's training to save and stop after its step, on all ranks. For signal
 * handlers. */
void gyre_train_stop(void);

#endif
