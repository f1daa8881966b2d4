/* Checkpoints of a training run: the replica, and the numbers below. checkpoint/run brings them
 * from all ranks to rank 0, which alone writes and reads, and back. No file system need be shared,
 * and a run goes on with any number of ranks, sharded or not. The settings of the run stand in the
 * checkpoint's texts: settings.c. Tested by tests/program/train/resume.c. */
#include "train/inside.h"

#include <errno.h>
#include <stddef.h>

/* Where the run stands, the sums of its epoch, the best epoch so far. */
static const struct run_number {
    const char *name;
    size_t at; /* in struct gyre_train */
    enum { WHOLE_NUMBER, REAL_NUMBER } kind;
    bool late; /* absent in older checkpoints */
} numbers[] = {
    {"step", offsetof(struct gyre_train, step), WHOLE_NUMBER, false},
    {"epoch", offsetof(struct gyre_train, epoch), WHOLE_NUMBER, false},
    {"cursor", offsetof(struct gyre_train, cursor), WHOLE_NUMBER, false},
    {"epoch.steps", offsetof(struct gyre_train, tally.steps), WHOLE_NUMBER, false},
    {"epoch.loss", offsetof(struct gyre_train, tally.loss), REAL_NUMBER, false},
    {"epoch.right", offsetof(struct gyre_train, tally.right), REAL_NUMBER, false},
    {"epoch.samples", offsetof(struct gyre_train, tally.samples), REAL_NUMBER, false},
    {"best.epoch", offsetof(struct gyre_train, best.epoch), WHOLE_NUMBER, true},
    {"best.step", offsetof(struct gyre_train, best.step), WHOLE_NUMBER, true},
    {"best.judge", offsetof(struct gyre_train, best.judge), WHOLE_NUMBER, true},
    {"best.loss", offsetof(struct gyre_train, best.loss), REAL_NUMBER, true},
    {"best.accuracy", offsetof(struct gyre_train, best.accuracy), REAL_NUMBER, true},
};

/* -- the list ---------------------------------------------------------------------------------- */

static int add_number(struct gyre_train *t, const struct run_number *number)
{
    void *at = (char *)t + number->at;
    int status = number->kind == REAL_NUMBER
                     ? gyre_checkpoint_add_f64(t->checkpoint, number->name, at)
                     : gyre_checkpoint_add_i64(t->checkpoint, number->name, at);
    if (!status && number->late)
        gyre_run_allow_missing(t->checkpoint);
    return status;
}

int gyre_train_list_checkpoint(struct gyre_train *t)
{
    struct gyre_checkpoint_options options = GYRE_CHECKPOINT_OPTIONS_INIT;
    if (!gyre_train_keeps_best(t))
        options.keep = (uint64_t)t->options->keep;
    int status = gyre_checkpoint_create(&t->checkpoint, t->comm, &options);
    if (!status)
        status = gyre_run_add_replica(t->checkpoint, &t->replica);
    for (size_t i = 0; !status && i < sizeof numbers / sizeof *numbers; i++)
        status = add_number(t, &numbers[i]);
    return status ? gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL))
                  : gyre_train_list_scale(t);
}

/* -- saving ------------------------------------------------------------------------------------ */

int gyre_train_save(struct gyre_train *t)
{
    struct gyre_run_settings words;
    gyre_train_take_settings(t, &words);
    gyre_run_spare(t->checkpoint, gyre_train_keeps_best(t) ? (uint64_t)t->best.step : 0);
    int status = gyre_run_save(t->checkpoint, t->options->save, t->step, words.text, words.count,
                               t->trouble);
    t->common |= status != 0;
    return status;
}

/* -- resuming ---------------------------------------------------------------------------------- */

static int check_position(struct gyre_train *t, const struct gyre_generation *generation)
{
    static const char *const names[] = {"step", "epoch", "cursor"};
    int64_t place[3] = {0};
    int status = 0;
    for (int i = 0; !status && i < 3; i++)
        status = gyre_generation_get_whole(generation, names[i], &place[i], t->trouble);
    if (!status &&
        (place[0] < 0 || place[1] < 0 || place[2] < 0 || (uint64_t)place[2] > t->data.samples))
        status =
            gyre_trouble_set(t->trouble, GYRE_INVALID,
                             "%s: stands at sample %lld of epoch %lld, but %s has %llu samples",
                             t->options->save, (long long)place[2], (long long)place[1],
                             t->options->data, (unsigned long long)t->data.samples);
    return status;
}

/* Rank 0, before anything is loaded. */
static int examine_generation_of_run(struct gyre_train *t)
{
    const struct gyre_generation *generation = gyre_run_generation(t->checkpoint);
    int status = gyre_train_compare_settings(t, generation);
    if (!status)
        status = check_position(t, generation);
    return status ? status
                  : gyre_train_resume_shares(t, gyre_generation_text(generation, "shares"));
}

int gyre_train_resume(struct gyre_train *t)
{
    uint64_t step;
    int status = gyre_run_open(t->checkpoint, t->options->save, t->trouble);
    if (status == -ENOENT) {
        *t->trouble = (struct gyre_trouble){0};
        return 0;
    }
    if (!status) {
        int refused = gyre_train_expect_scale(t);
        if (!refused && !t->rank)
            refused = examine_generation_of_run(t);
        status = gyre_run_load(t->checkpoint, refused, &step, t->trouble);
    }
    t->common |= status != 0;
    return status;
}
