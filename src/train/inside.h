/* A training run's inside, for the files of this room. A file calls only those below it.
 *
 *   train.c      epochs
 *   setup.c      options ─▶ data, model, engine, sampler; ranks agree
 *   save.c       checkpoints, and weights to begin with
 *   settings.c   the settings of a run as texts of its checkpoints
 *   shares.c     how much of a step each rank gets
 *   step.c       batch ─▶ forward ─▶ loss ─▶ backward ─▶ reduced ─▶ update
 *   eval.c       every test sample once
 *   state.c      optimiser states and feedback, between all ranks and rank 0
 *   digest.c     which rank saw which samples
 *   tell.c       the report of steps and epochs
 *   agree.c      a failure or a signal of one rank, made known to all
 *   loader.c     batches, ahead of time
 *   options.c    the table of options
 */
#ifndef GYRE_TRAIN_INSIDE_H
#define GYRE_TRAIN_INSIDE_H

#include "checkpoint/checkpoint.h"
#include "model/learning/learning_rate.h"
#include "model/learning/scaler.h"
#include "model/network/replica.h"
#include "report/report.h"
#include "train/loader.h"
#include "train/train.h"

#include <gyre/ddp.h>

enum { GYRE_TRAIN_LOSS_SUM, GYRE_TRAIN_RIGHT_SUM }; /* of gyre_ddp_add() */

/* Settings of the run as texts of its checkpoints; settings.c. */
#define GYRE_TRAIN_RUN_SETTINGS 8
#define GYRE_TRAIN_CHANGES      4 /* settings that a resumed run may change */
#define GYRE_TRAIN_WORD_ROOM    160

struct gyre_run_settings {
    char room[GYRE_TRAIN_RUN_SETTINGS][GYRE_TRAIN_WORD_ROOM];
    struct gyre_stored_text text[GYRE_TRAIN_RUN_SETTINGS];
    uint64_t count;
};

/* State read from a checkpoint, until optimiser and engine are there to take it. */
struct gyre_train_state {
    float *full[2]; /* rank 0: of all parameters, in their order; NULL: none */
    int64_t steps;
    bool given;
    float *feedback;   /* rank 0: of all ranks, parameter by parameter; NULL: none */
    double wire_scale; /* rank 0; 0: none */
    bool feedback_lost;
    char change[GYRE_TRAIN_CHANGES][3 * GYRE_TRAIN_WORD_ROOM]; /* rank 0: lines */
    int changes;
};

/* The shares of ranks in a step; shares.c. */
struct gyre_train_shares {
    double *weight;  /* NULL: all are alike; measured ones are 0 until then */
    char *text;      /* the weights as a word for --shares */
    uint64_t *speed; /* of each rank, in samples per 1000 s; NULL: not measured by this run */
    bool resumed;    /* rank 0: the weights are the checkpoint's */
    bool refused;    /* rank 0: the checkpoint's are those of another number of ranks */
};

/* Sums over the steps of an epoch. */
struct gyre_train_tally {
    double loss, right, samples;
    double seconds, exposed;
    uint64_t steps;
};

/* The samples of this rank in an epoch; digest.c. */
struct gyre_train_digest {
    uint8_t *seen; /* by sample, how often; NULL: not asked for */
    uint64_t samples, hash;
    uint64_t before; /* rank 0: of `seen`, before the run was resumed */
};

struct gyre_train {
    struct gyre_comm *comm;
    int rank, n;
    const struct gyre_train_options *options;
    struct gyre_trouble *trouble;
    FILE *terminal;

    struct gyre_dataset data, test;
    struct gyre_sampler *sampler;
    struct gyre_loader *loader;
    struct gyre_train_shares shares;
    uint64_t span; /* samples of all ranks in a part of a step */
    uint64_t room; /* samples of one rank in a part of a step, at most */
    uint64_t steps_per_epoch;

    struct gyre_replica replica; /* its optimiser is made after the first step */
    struct gyre_train_state resumed;
    struct gyre_rate_settings rate;
    struct gyre_scaler scaler;
    double norm; /* of the last gradient, where the engine computes it */

    uint64_t step, epoch, cursor; /* done */
    struct gyre_train_tally tally;
    struct gyre_train_digest digest;
    bool stop;
    bool common;                /* the failure is known to all ranks, and fails on all alike */
    struct gyre_report *report; /* rank 0 */
    struct gyre_trouble report_trouble; /* a file that could not be written: training goes on */
    struct gyre_train_outcome *outcome;
};

/* -- setup.c ----------------------------------------------------------------------------------- */

int gyre_train_open(struct gyre_train *t);
void gyre_train_close(struct gyre_train *t);

/* -- save.c ------------------------------------------------------------------------------------ */

int gyre_train_save(struct gyre_train *t);
int gyre_train_resume(struct gyre_train *t);    /* before the engine is made */
int gyre_train_load_init(struct gyre_train *t); /* --init */

/* -- settings.c -------------------------------------------------------------------------------- */

void gyre_train_take_settings(const struct gyre_train *t, struct gyre_run_settings *settings);

/* Rank 0: GYRE_INVALID if the checkpoint is of another run; other differences become
 * t->resumed.change. */
int gyre_train_compare_settings(struct gyre_train *t, const struct gyre_checkpoint *checkpoint);

/* -- shares.c ---------------------------------------------------------------------------------- */

bool gyre_train_shares_are_measured(const struct gyre_train *t);
int gyre_train_read_shares(struct gyre_train *t);

/* Rank 0: takes the text of a checkpoint's shares, or NULL. */
int gyre_train_resume_shares(struct gyre_train *t, const char *text);

/* Measures shares, where that is asked for and still to be done. After the engine is made.
 * Collective. */
int gyre_train_settle_shares(struct gyre_train *t);
void gyre_train_tell_shares(const struct gyre_train *t); /* rank 0 */
void gyre_train_free_shares(struct gyre_train *t);

/* -- step.c ------------------------------------------------------------------------------------ */

/* GYRE_AGAIN at the end of the epoch. */
int gyre_train_step(struct gyre_train *t);
int gyre_train_make_optimizer(struct gyre_train *t);

/* -- eval.c ------------------------------------------------------------------------------------ */

/* Gives rank 0's buffers (running means) to all ranks, as PyTorch does. */
int gyre_train_share_buffers(struct gyre_train *t);
int gyre_train_evaluate(struct gyre_train *t, struct gyre_loss *loss);

/* -- state.c ----------------------------------------------------------------------------------- */

/* Elements of the first so many parameters, together. */
uint64_t gyre_train_elements(const struct gyre_train *t, int parameters);

/* Every state of the optimiser, whole, on rank 0: full[s], to be freed, also after a failure. NULL
 * on the others. */
int gyre_train_collect_states(struct gyre_train *t, float **full);
int gyre_train_restore_optimizer(struct gyre_train *t);

/* The feedback of all ranks, on rank 0: n blocks for each parameter, to be freed; NULL where there
 * is none. */
bool gyre_train_has_feedback(const struct gyre_train *t);
int gyre_train_collect_feedback(struct gyre_train *t, float **all);
int gyre_train_restore_feedback(struct gyre_train *t); /* once the engine is made */

/* -- digest.c ---------------------------------------------------------------------------------- */

int gyre_train_note_before(struct gyre_train *t); /* the samples of an epoch before its resume */
void gyre_train_note_samples(struct gyre_train *t, const struct gyre_batch *batch);
int gyre_train_tell_digest(struct gyre_train *t); /* and begins anew */

/* -- tell.c ------------------------------------------------------------------------------------ */

int gyre_train_open_report(struct gyre_train *t);
void gyre_train_tell_step(struct gyre_train *t, const struct gyre_ddp_result *r, uint64_t since_ns);

/* Also sets the figures of t->outcome. */
void gyre_train_tell_epoch(struct gyre_train *t, const struct gyre_loss *test);

/* -- agree.c ----------------------------------------------------------------------------------- */

/* Is `status` of this rank fine on all? Collective: the lowest rank's failure becomes
 * everybody's. */
int gyre_train_agree(struct gyre_train *t, int status);

/* Has gyre_train_stop() been called in this process? */
bool gyre_train_stop_asked(void);

/* What a batch's outputs are compared with. */
static inline struct gyre_wanted gyre_train_wanted(const struct gyre_dataset *set,
                                                   const struct gyre_batch *batch)
{
    return set->label ? (struct gyre_wanted){.labels = batch->y}
                      : (struct gyre_wanted){.targets = batch->y};
}

#endif
