/* A training run's inside, for the files of this room. A file calls only those below it.
 *
 *   train.c      epochs
 *   newcomers.c  processes that join
 *   regroup.c    ranks that go on after a loss
 *   setup.c      options ─▶ data, model, engine, sampler; ranks agree
 *   save.c       checkpoints
 *   scale.c      standardised samples
 *   settings.c   the settings of a run as texts of its checkpoints
 *   shares.c     how much of a step each rank gets
 *   step.c       batch ─▶ forward ─▶ loss ─▶ backward ─▶ reduced ─▶ update
 *   eval.c       every sample of a set once
 *   digest.c     which rank saw which samples
 *   best.c       the best epoch so far
 *   tell.c       the report of steps and epochs
 *   equal.c      options, samples and weights that must be equal on all ranks
 *   agree.c      a failure or a signal of one rank, made known to all
 *   loader.c     batches, ahead of time
 *   early.c      what is refused before there are ranks
 *   options.c    the table of options; options_file.c: options in a file
 */
#ifndef GYRE_TRAIN_INSIDE_H
#define GYRE_TRAIN_INSIDE_H

#include "checkpoint/run/run.h"
#include "model/learning/learning_rate.h"
#include "model/network/feed.h"
#include "model/network/late.h"
#include "model/network/resident.h"
#include "model/network/update.h"
#include "report/report.h"
#include "train/loader.h"
#include "train/train.h"
#include "trained/trained.h"

#include <gyre/ddp.h>

/* Of gyre_ddp_add(). */
enum { GYRE_TRAIN_LOSS_SUM, GYRE_TRAIN_RIGHT_SUM, GYRE_TRAIN_WAITING_SUM, GYRE_TRAIN_LEAVING_SUM };

/* Settings of the run as texts of its checkpoints; settings.c. */
#define GYRE_TRAIN_RUN_SETTINGS 13
#define GYRE_TRAIN_CHANGES      4 /* settings that a resumed run may change */
#define GYRE_TRAIN_WORD_ROOM    160

struct gyre_run_settings {
    char room[GYRE_TRAIN_RUN_SETTINGS][GYRE_TRAIN_WORD_ROOM];
    struct gyre_stored_text text[GYRE_TRAIN_RUN_SETTINGS];
    uint64_t count;
};

/* What a resumed run does otherwise than its checkpoint's; rank 0. */
struct gyre_train_changes {
    char line[GYRE_TRAIN_CHANGES][3 * GYRE_TRAIN_WORD_ROOM];
    int count;
};

/* The shares of ranks in a step; shares.c. */
struct gyre_train_shares {
    double *weight;  /* NULL: all are alike; measured ones are 0 until then */
    char *text;      /* the weights as a word for --shares */
    uint64_t *speed; /* of each rank, in samples per 1000 s; NULL: not measured by this run */
    char load[512];  /* what else machines did while they were measured; "": they were quiet */
    bool resumed;    /* rank 0: the weights are the checkpoint's */
    bool refused;    /* rank 0: the checkpoint's are those of another number of ranks */
};

/* Sums over the steps of an epoch. */
struct gyre_train_tally {
    double loss, right, samples;
    double seconds, exposed;
    uint64_t steps;
};

/* A step that is done, as far as it is known by its end. */
struct gyre_train_done {
    struct gyre_ddp_result result;
    uint64_t step, epoch, since_ns;
};

/* The samples of this rank in an epoch; digest.c. */
struct gyre_train_digest {
    uint8_t *seen; /* by sample, how often; NULL: not asked for */
    uint64_t samples, hash;
    uint64_t before; /* rank 0: of `seen`, before the run was resumed */
};

struct gyre_train {
    struct gyre_comm **owned; /* the caller's place for it */
    struct gyre_comm *comm;
    struct gyre_comm *former; /* ends once the engine has left it; NULL: none */
    int rank, n;
    const struct gyre_train_options *options;
    struct gyre_trouble *trouble;
    FILE *terminal;     /* rank 0's; NULL: this rank says nothing */
    FILE *any_terminal; /* for whoever becomes rank 0 */

    struct gyre_dataset data, test, validation; /* validation: a part of `data` */
    uint64_t data_hash;                         /* of `data` as it was read */
    struct gyre_scale scale;                    /* of all three */
    char *class_names; /* of the data, a line each; NULL: classes have none */
    struct gyre_sampler *sampler;
    struct gyre_loader *loader;
    struct gyre_resident resident; /* the samples on the device, where they are */
    struct gyre_feed feed;         /* batches on their way there, where they are not */
    struct gyre_feed viewed;       /* the same of evaluations, where they have several */
    struct gyre_train_shares shares;
    uint64_t span; /* samples of all ranks in a part of a step */
    uint64_t room; /* samples of one rank in a part of a step, at most */
    uint64_t steps_per_epoch;

    struct gyre_trained init; /* --init */
    struct gyre_architecture architecture;
    struct gyre_replica replica;        /* its optimiser is made after the first step */
    struct gyre_checkpoint *checkpoint; /* the list of what is saved */
    struct gyre_train_changes changes;
    struct gyre_learning_rate rate;
    double norm;                   /* of the last gradient, where the engine computes it */
    struct gyre_train_done behind; /* the last step, where its end is not known yet */
    uint64_t settled_ns;           /* when the end of one was known last */
    char *data_lines; /* what was compared of the data, before they were standardised */
    bool scaled;      /* of a newcomer: its samples are standardised */
    bool waiting;     /* processes wait to join, as the last step has told all ranks */
    int leaving;      /* ranks that want to leave, as the last step has told all ranks */
    bool leaves;      /* this rank is one of them */
    bool gone;        /* it has left */
    bool patient;     /* lost ranks are started again: wait for them where too few are left */

    uint64_t step, epoch, cursor; /* done */
    struct gyre_train_best best;
    struct gyre_train_tally tally;
    struct gyre_train_digest digest;
    bool stop;
    bool common;                /* the failure is known to all ranks, and fails on all alike */
    struct gyre_report *report; /* rank 0 */
    struct gyre_trouble report_trouble; /* a file that could not be written: training goes on */
    struct gyre_train_outcome *outcome;
};

#define GYRE_TRAIN_AHEAD 2 /* batches that a thread gathers ahead */

/* -- setup.c ----------------------------------------------------------------------------------- */

int gyre_train_open(struct gyre_train *t);
void gyre_train_close(struct gyre_train *t);

/* Deals the samples of a step, and from where the run stands on, to the ranks that there are. */
int gyre_train_deal(struct gyre_train *t);

int gyre_train_make_own(struct gyre_train *t); /* what needs no other rank */
int gyre_train_make_engine(struct gyre_train *t);
int gyre_train_prepare_elastic(struct gyre_train *t);

/* -- newcomers.c ------------------------------------------------------------------------------- */

/* Takes in who waits, and hands over. GYRE_PEER_LOST: somebody was lost, or has left on the way.
 * Collective. */
int gyre_train_take_in(struct gyre_train *t);

/* Where fewer ranks are left than --elastic wants: takes in whoever comes, until they are enough.
 * GYRE_TIMED_OUT after the join timeout. Collective. */
int gyre_train_wait_for_ranks(struct gyre_train *t);

/* This process joins a training that runs: makes what it needs, is taken in, and is handed weights,
 * optimiser and position. */
int gyre_train_come(struct gyre_train *t);

/* -- regroup.c --------------------------------------------------------------------------------- */

/* After a loss: goes on with the ranks that are left, from the last step that one of them has
 * completed. Fails where they are fewer than --elastic wants. */
int gyre_train_regroup(struct gyre_train *t);

/* After a step that says that ranks want to leave: they leave, and the others go on, unless too few
 * would be left. Collective. */
int gyre_train_part(struct gyre_train *t);

/* Lets processes wait that want to join: --elastic. Collective. */
int gyre_train_let_wait(struct gyre_train *t);

/* Has the engine go on with the ranks of t->comm, and ends t->former. Collective. */
int gyre_train_change_ranks(struct gyre_train *t);

/* Takes weights, optimiser and position from the rank that is furthest, and compares them.
 * Collective. */
int gyre_train_catch_up(struct gyre_train *t);

/* Makes anew what depends on the ranks. */
int gyre_train_open_books(struct gyre_train *t);

/* Appends "rank 2 on a (pid 7)" to a list of such, behind a comma unless it is the first there, as
 * far as there is room; `used` is the length of the text so far. Returns the length then wanted. */
size_t gyre_train_list_rank(char *text, size_t used, size_t size, bool first, int rank,
                            const char *host, int pid);

/* Tells what has happened to the ranks, and from where they go on. */
void gyre_train_tell_ranks(const struct gyre_train *t, const char *what);

/* -- save.c ------------------------------------------------------------------------------------ */

int gyre_train_list_checkpoint(struct gyre_train *t); /* once the engine is made */
int gyre_train_save(struct gyre_train *t);            /* collective */
int gyre_train_resume(struct gyre_train *t);          /* from the newest, if there is one */

/* -- scale.c ----------------------------------------------------------------------------------- */

/* Takes the means of --init, or with --scale finds those of the data. */
int gyre_train_find_scale(struct gyre_train *t);
int gyre_train_list_scale(struct gyre_train *t); /* for the checkpoint, where there is one */

/* Makes place for the means of the checkpoint that is open, which a load fills. Collective. */
int gyre_train_expect_scale(struct gyre_train *t);
int gyre_train_apply_scale(struct gyre_train *t); /* to all sets, once the means are known */

/* -- settings.c -------------------------------------------------------------------------------- */

void gyre_train_take_settings(const struct gyre_train *t, struct gyre_run_settings *settings);

/* Rank 0: GYRE_INVALID if the checkpoint is of another run; other differences become
 * t->changes. */
int gyre_train_compare_settings(struct gyre_train *t, const struct gyre_generation *checkpoint);

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

/* GYRE_AGAIN at the end of the epoch. On a device the host may learn of the end of a step in the
 * next one (model/network/late.h). */
int gyre_train_step(struct gyre_train *t);

/* While the device computes: brings the batch that the loader will give next. The feed may be
 * none. */
int gyre_train_bring_next(struct gyre_train *t, struct gyre_feed *feed, struct gyre_loader *loader);

/* The rows of a batch as a feed knows them. */
static inline struct gyre_feed_batch gyre_train_fed(const struct gyre_batch *batch)
{
    return (struct gyre_feed_batch){batch->x, batch->samples, batch->epoch, batch->cursor};
}

/* Until the end of every step is known, before anything else than a step. */
int gyre_train_settle(struct gyre_train *t);

/* --elastic: keeps the running means behind a step, since a step that fails leaves them changed. */
int gyre_train_keep_running(struct gyre_train *t);

/* -- eval.c ------------------------------------------------------------------------------------ */

/* Gives rank 0's buffers (running means) to all ranks, as PyTorch does. */
int gyre_train_share_buffers(struct gyre_train *t);
int gyre_train_evaluate(struct gyre_train *t, const struct gyre_dataset *set,
                        struct gyre_loss *loss);

/* -- digest.c ---------------------------------------------------------------------------------- */

int gyre_train_note_before(struct gyre_train *t); /* the samples of an epoch before its resume */
void gyre_train_note_samples(struct gyre_train *t, const struct gyre_batch *batch);
int gyre_train_tell_digest(struct gyre_train *t); /* and begins anew */

/* -- best.c ------------------------------------------------------------------------------------ */

/* By what the epochs of this run are compared. */
enum gyre_train_judge gyre_train_judge(const struct gyre_train *t);

/* Compares the epoch that has ended with the best before it. */
void gyre_train_note_best(struct gyre_train *t, const struct gyre_epoch_record *record);

/* --keep best: is its checkpoint to stay? */
bool gyre_train_keeps_best(const struct gyre_train *t);

/* --patience: has it run out once so many epochs are done? */
bool gyre_train_lost_patience(const struct gyre_train *t, uint64_t epochs);

/* -- tell.c ------------------------------------------------------------------------------------ */

int gyre_train_open_report(struct gyre_train *t);
void gyre_train_tell_step(struct gyre_train *t, const struct gyre_train_done *done);

void gyre_train_tell_start(struct gyre_train *t); /* who trains on what, how large a step is */

/* --evaluate: a table of what the model makes of each set. */
void gyre_train_tell_figures(const struct gyre_train *t, const struct gyre_train_figure *figure,
                             int figures);

/* Also sets the figures of t->outcome. */
void gyre_train_tell_epoch(struct gyre_train *t, const struct gyre_loss *validation,
                           const struct gyre_loss *test);

/* -- equal.c ----------------------------------------------------------------------------------- */

/* Collective. GYRE_INVALID on all ranks, which names what differs with both values and both
 * ranks. */
int gyre_train_compare_options(struct gyre_train *t);
int gyre_train_compare_data(struct gyre_train *t); /* once data and model are there */

/* Collective. GYRE_CORRUPT on all ranks, which names those in the minority. */
int gyre_train_compare_weights(struct gyre_train *t);

/* As compare_weights(), of all that was handed over. */
int gyre_train_compare_state(struct gyre_train *t);

/* -- agree.c ----------------------------------------------------------------------------------- */

/* Is `status` of this rank fine on all? Collective: the lowest rank's failure becomes
 * everybody's. */
int gyre_train_agree(struct gyre_train *t, int status);

/* `status` as it is. A failure is explained in t->trouble by the words of the communicator, or of
 * the engine where that has none, unless it is explained already. */
int gyre_train_explain(struct gyre_train *t, int status);

/* Has gyre_train_stop() been called in this process? */
bool gyre_train_stop_asked(void);

/* The learning rate of this run, before schedule and warm-up. */
static inline double gyre_train_lr(const struct gyre_train *t)
{
    return t->options->scale_lr ? t->options->lr * t->n : t->options->lr;
}

/* What a batch's outputs are compared with. */
static inline struct gyre_wanted gyre_train_wanted(const struct gyre_dataset *set,
                                                   const struct gyre_batch *batch)
{
    return set->label ? (struct gyre_wanted){.labels = batch->y}
                      : (struct gyre_wanted){.targets = batch->y};
}

#endif
