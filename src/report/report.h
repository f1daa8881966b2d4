/* What a training run says: records go in, files and terminal lines come out.
 *
 *     step, epoch, note ──▶ report ──▶ JSON lines, CSV, TensorBoard events
 *                                 ├──▶ a loss curve, drawn at the end
 *                                 └──▶ a progress line, or plain lines where no terminal is
 *
 * A report knows nothing of models, ranks or transports: the numbers are global ones already, and
 * only one rank makes a report. docs/training.md has the formats. Calls come from one thread at a
 * time; they block as long as write(2) does. All memory is allocated by open, but for the drawing
 * of the curve at close. */
#ifndef GYRE_REPORT_REPORT_H
#define GYRE_REPORT_REPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct gyre_report;

/* Each path may be NULL: not written. Texts are copied. */
struct gyre_report_options {
    const char *metrics; /* JSON lines */
    const char *csv;     /* of steps; those of epochs stand beside it: run.csv, run-epochs.csv */
    const char *tensorboard;  /* a folder, made with its parents */
    const char *svg;          /* loss and accuracy as curves */
    const char *title;        /* of the curves; NULL: "training" */
    bool append;              /* a resumed run: lines are added to the files, not written anew */
    uint64_t epochs;          /* of the whole run; 0: unknown, then no time left is told */
    uint64_t steps_per_epoch; /* 0: unknown, then there is no bar */
    uint64_t wall_ns;         /* since 1970, at the moment of `now_ns` */
    int terminal;             /* a descriptor that stays the caller's; -1: none */
    bool quiet;               /* only notes are told on the terminal */
};

struct gyre_step_record {
    uint64_t step; /* of the run, from 1 */
    uint64_t epoch;
    uint64_t samples; /* of all ranks */
    double loss;      /* mean over them */
    double accuracy;  /* 0 to 1; -1: absent */
    double learning_rate;
    double gradient_norm;   /* -1: absent */
    double loss_scale;      /* 0: absent */
    double seconds;         /* of the step */
    double exposed_seconds; /* of it, waiting for communication */
    uint64_t reduced_bytes;
};

struct gyre_epoch_record {
    uint64_t epoch;
    uint64_t steps;
    double loss;     /* mean over the epoch's samples */
    double accuracy; /* -1: absent */
    bool tested;     /* the next two hold something */
    double test_loss;
    double test_accuracy; /* -1: absent */
    double seconds;
    double samples_per_second;
    double exposed_share; /* 0 to 1; -1: absent */
};

/* `now_ns` of all calls is one clock that never goes back. After a failure *report is NULL. A path
 * that cannot be opened is its -errno, two of the same file are GYRE_INVALID; then no file has lost
 * what it held before. */
int gyre_report_open(struct gyre_report **report, const struct gyre_report_options *options,
                     uint64_t now_ns, struct gyre_trouble *trouble);

/* A file that can be written no further is told by the call that finds it, once, by name and with
 * its -errno; it then ends in a whole line, and the others are written on. Whether the run goes on
 * is the caller's affair. */
int gyre_report_step(struct gyre_report *report, const struct gyre_step_record *record,
                     uint64_t now_ns, struct gyre_trouble *trouble);
int gyre_report_epoch(struct gyre_report *report, const struct gyre_epoch_record *record,
                      uint64_t now_ns, struct gyre_trouble *trouble);

/* A line of its own on the terminal, above the progress line: "warning: …". */
void gyre_report_note(struct gyre_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Draws the curves, closes the files and frees the report, whatever it returns: 0, or as step a
 * failure that was not told yet. NULL is closed already. */
int gyre_report_close(struct gyre_report *report, struct gyre_trouble *trouble);

#endif
