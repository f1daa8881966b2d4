/* What a run was told, as words in its checkpoints, for whoever goes on with it.
 *
 *     seed, optimiser, validation, data, loss
 *                               must be what they were: with others it would be another run
 *     lr, schedule, batch, …    may change: the new word counts, and the line says both
 *     shares                    shares.c
 *     classes, label column, best
 *                               for evaluation and prediction
 *
 * A checkpoint that says nothing of one of them is taken at the user's word. Tested by
 * tests/program/train/resume.c. */
#include "train/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum setting {
    SEED,
    OPTIMIZER,
    VALIDATION,
    DATA,
    LOSS,
    ALIKE,
    RATE = ALIKE,
    SCHEDULE,
    BATCH,
    SETTINGS,
    COMPARED,
    SHARES = COMPARED,
    CLASSES,
    LABEL_COLUMN,
    BEST
};

static const char *const keys[GYRE_TRAIN_RUN_SETTINGS] = {[SEED] = "seed",
                                                          [OPTIMIZER] = "optimizer",
                                                          [VALIDATION] = "validation",
                                                          [DATA] = "data",
                                                          [LOSS] = "loss",
                                                          [RATE] = "lr",
                                                          [SCHEDULE] = "schedule",
                                                          [BATCH] = "batch",
                                                          [SETTINGS] = "settings",
                                                          [SHARES] = "shares",
                                                          [CLASSES] = "classes",
                                                          [LABEL_COLUMN] = "label column",
                                                          [BEST] = GYRE_GENERATION_BEST};

/* -- in words ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void append_text(char *text, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, GYRE_TRAIN_WORD_ROOM - length, format, arguments);
    va_end(arguments);
}

static void describe_schedule(const struct gyre_train_options *o, char *text)
{
    if (o->schedule == GYRE_RATE_CONSTANT)
        append_text(text, "%s", gyre_rate_names[o->schedule]);
    else if (o->schedule == GYRE_RATE_STEP)
        append_text(text, "times %.9g every %lld epochs", o->gamma, (long long)o->step_size);
    else
        append_text(text, "cosine to %.9g over %lld epochs", o->least_lr, (long long)o->epochs);
    if (o->warmup)
        append_text(text, ", warm-up of %lld steps", (long long)o->warmup);
}

static void describe_settings(const struct gyre_train_options *o, char *text)
{
    double decay = gyre_train_optimizer_settings(o).weight_decay;
    if (o->optimizer == GYRE_SGD)
        append_text(text, "momentum %.9g%s", o->momentum, o->nesterov ? " (nesterov)" : "");
    else
        append_text(text, "betas %.9g and %.9g, eps %.9g", o->beta1, o->beta2, o->eps);
    append_text(text, ", weight decay %.9g", decay);
    if (o->clip > 0)
        append_text(text, ", clip %.9g", o->clip);
    append_text(text, ", %s", gyre_precision_names[o->precision]);
}

/* NULL: the run has none. */
static void add_text(struct gyre_run_settings *words, enum setting word, const char *text)
{
    if (text)
        words->text[words->count++] = (struct gyre_stored_text){keys[word], text};
}

void gyre_train_take_settings(const struct gyre_train *t, struct gyre_run_settings *words)
{
    const struct gyre_train_options *o = t->options;
    *words = (struct gyre_run_settings){.count = COMPARED};
    append_text(words->room[SEED], "%lld", (long long)o->seed);
    append_text(words->room[OPTIMIZER], "%s", gyre_optimizer_names[o->optimizer]);
    append_text(words->room[VALIDATION], "%.9g", o->validation);
    append_text(words->room[DATA], "%016llx", (unsigned long long)t->data_hash);
    append_text(words->room[LOSS], "%s", gyre_loss_names[o->loss]);
    append_text(words->room[RATE], "%.9g", gyre_train_lr(t));
    describe_schedule(o, words->room[SCHEDULE]);
    append_text(words->room[BATCH], "%llu of all ranks",
                (unsigned long long)(t->span * (uint64_t)o->accumulate));
    describe_settings(o, words->room[SETTINGS]);
    for (int i = 0; i < COMPARED; i++)
        words->text[i] = (struct gyre_stored_text){keys[i], words->room[i]};
    add_text(words, SHARES, t->shares.text);
    add_text(words, CLASSES, t->class_names);
    add_text(words, LABEL_COLUMN, o->label_column);
    append_text(words->room[BEST], "%lld", (long long)t->best.step);
    add_text(words, BEST, gyre_train_keeps_best(t) && t->best.epoch ? words->room[BEST] : NULL);
}

/* -- compared ---------------------------------------------------------------------------------- */

static int refuse_setting(struct gyre_train *t, enum setting word, const char *saved,
                          const char *own)
{
    static const char *const told[ALIKE] = {[SEED] = "--seed",
                                            [OPTIMIZER] = "--optimizer",
                                            [VALIDATION] = "--validation",
                                            [DATA] = "data with the hash",
                                            [LOSS] = "--loss"};
    return gyre_trouble_set(t->trouble, GYRE_INVALID,
                            "%s: was saved with %s %s, and this run has %s: that would be another "
                            "run; --init takes only weights, for a new one",
                            t->options->save, told[word], saved, own);
}

int gyre_train_compare_settings(struct gyre_train *t, const struct gyre_generation *checkpoint)
{
    struct gyre_run_settings own;
    gyre_train_take_settings(t, &own);
    for (int i = 0; i < COMPARED; i++) {
        const char *saved = gyre_generation_text(checkpoint, keys[i]);
        if (!saved || strcmp(saved, own.room[i]) == 0)
            continue;
        if (i < ALIKE)
            return refuse_setting(t, (enum setting)i, saved, own.room[i]);
        snprintf(t->changes.line[t->changes.count++], sizeof t->changes.line[0],
                 "goes on with %s %s; the checkpoint had %.*s", keys[i], own.room[i],
                 GYRE_TRAIN_WORD_ROOM, saved);
    }
    return 0;
}
