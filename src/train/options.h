/* The options of a training run: one table of names, kinds, bounds and help, for flags, files and
 * presets. */
#ifndef GYRE_TRAIN_OPTIONS_H
#define GYRE_TRAIN_OPTIONS_H

#include "base/status.h"
#include "model/learning/optimizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct gyre_lines;

struct gyre_train_options {
    /* model and data */
    const char *data, *labels, *test, *test_labels, *label_column;
    double validation;
    bool scale;
    int model; /* enum gyre_model_kind */
    const char *layers, *init;
    bool evaluate;
    int loss, precision; /* enum gyre_loss_kind, gyre_precision */
    int device;          /* 0: the CPU, 1: the rank's CUDA device */
    bool sync_bn;
    /* optimiser, order, steps */
    int optimizer; /* enum gyre_optimizer_kind */
    double lr, momentum, weight_decay, beta1, beta2, eps, clip;
    bool nesterov, scale_lr;
    int schedule; /* enum gyre_rate_kind */
    int64_t warmup, step_size;
    double gamma, least_lr;
    int64_t epochs, patience, batch, global_batch, accumulate, seed;
    /* over ranks */
    int mean, tail, wire; /* enum gyre_ddp_mean, gyre_tail, gyre_ddp_wire */
    bool sharded, no_shuffle, data_digest;
    const char *shares;
    uint64_t bucket_cap;
    int64_t compare_every;
    int64_t elastic; /* ranks with which a run goes on after a loss, at least; 0: it ends */
    /* files and terminal */
    const char *save, *metrics, *csv, *tensorboard, *svg;
    int64_t save_every, keep; /* keep: 0 is the best and the usual number */
    bool resume, quiet;
};

/* Sets every option to its default. */
void gyre_train_options_init(struct gyre_train_options *options);

/* Sets one by its name, without dashes ("weight-decay"). A switch takes NULL, "yes" or "no". Texts
 * are borrowed. GYRE_INVALID names the nearest known. */
int gyre_train_option_set(struct gyre_train_options *options, const char *name, const char *value,
                          struct gyre_trouble *trouble);

/* Sets all of a preset: "wine", "digits", "mnist". */
int gyre_train_option_preset(struct gyre_train_options *options, const char *preset,
                             struct gyre_trouble *trouble);

/* Sets what stands in a file: a line is `name = value`, or `name` for a switch; `preset = NAME`
 * sets all of a preset; # begins a comment. The texts are kept in *storage, which the caller frees
 * after the last use of the options. */
int gyre_train_option_file(struct gyre_train_options *options, const char *path, char **storage,
                           struct gyre_trouble *trouble);

/* The same of a text, which is cut into its lines, and stays as long. Troubles name `path`. */
int gyre_train_option_text(struct gyre_train_options *options, const char *path, char *text,
                           struct gyre_trouble *trouble);

/* Refuses options that are missing or do not go together. */
int gyre_train_options_check(const struct gyre_train_options *options,
                             struct gyre_trouble *trouble);

/* Appends a line "--NAME<tab>VALUE" for each option that all ranks must be told alike. */
void gyre_train_options_put(const struct gyre_train_options *options, struct gyre_lines *to);

struct gyre_optimizer_settings gyre_train_optimizer_settings(
    const struct gyre_train_options *options);

/* Entry i of the table: returns the name, or NULL past the last. *value: the word for its value, or
 * NULL for a switch. *help: its help text. */
const char *gyre_train_option_at(int i, const char **value, const char **help);

#endif
