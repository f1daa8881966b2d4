/* The best epoch of a run. Every rank keeps it, from figures that are equal on all of them, and it
 * stands in every checkpoint, so that a resumed run knows it. Tested by
 * tests/program/train/best.c. */
#include "train/inside.h"

enum gyre_train_judge gyre_train_judge(const struct gyre_train *t)
{
    if (t->options->validation > 0)
        return GYRE_TRAIN_BY_VALIDATION;
    return t->options->test ? GYRE_TRAIN_BY_TEST : GYRE_TRAIN_BY_TRAINING;
}

static bool is_better_epoch(const struct gyre_train_best *now, const struct gyre_train_best *before)
{
    if (!before->epoch || before->judge != now->judge)
        return true;
    if (now->accuracy != before->accuracy)
        return now->accuracy > before->accuracy;
    return now->loss < before->loss;
}

void gyre_train_note_best(struct gyre_train *t, const struct gyre_epoch_record *record)
{
    struct gyre_train_best now = {.epoch = (int64_t)record->epoch,
                                  .step = (int64_t)t->step,
                                  .judge = gyre_train_judge(t),
                                  .loss = record->loss,
                                  .accuracy = record->accuracy};
    if (now.judge == GYRE_TRAIN_BY_TEST) {
        now.loss = record->test_loss;
        now.accuracy = record->test_accuracy;
    } else if (now.judge == GYRE_TRAIN_BY_VALIDATION) {
        now.loss = record->validation_loss;
        now.accuracy = record->validation_accuracy;
    }
    if (is_better_epoch(&now, &t->best))
        t->best = now;
}

bool gyre_train_keeps_best(const struct gyre_train *t)
{
    return t->options->keep == 0;
}

bool gyre_train_lost_patience(const struct gyre_train *t, uint64_t epochs)
{
    const struct gyre_train_best *best = &t->best;
    int64_t patience = t->options->patience;
    return patience && best->epoch && best->judge == (int64_t)gyre_train_judge(t) &&
           (int64_t)epochs >= best->epoch + patience;
}
