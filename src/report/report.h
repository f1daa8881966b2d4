/* The output of a training run: records go in, files and terminal lines come out.
 *
 *     step, epoch, note ──▶ report ──▶ JSON lines, CSV, TensorBoard events
 *                                 ├──▶ a loss curve, drawn at the end
 *                                 └──▶ a progress line, or plain lines where no terminal is
 *
 * A report knows no models, ranks or transports: the numbers are global already, and only one rank
 * makes a report. docs/training.md has the formats. Calls come from one thread at a time and block
 * as long as write(2) does. All memory is allocated by open, but for the drawing of the curve at
 * close. */
#ifndef GYRE_REPORT_REPORT_H
#define GYRE_REPORT_REPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct gyre_report;

/* The options of a report. A path may be NULL: not written. Texts are copied. */
struct gyre_report_options {
    const char *metrics;      /* JSON lines */
    const char *csv;          /* of steps in run.csv; of epochs beside it, in run-epochs.csv */
    const char *tensorboard;  /* a folder, made with its parents */
    const char *svg;          /* loss and accuracy as curves */
    const char *title;        /* of the curves; NULL: "training" */
    bool append;              /* a resumed run: lines are appended to the files */
    uint64_t epochs;          /* of the whole run; 0: unknown, and no time left is shown */
    uint64_t steps_per_epoch; /* 0: unknown, and there is no bar */
    uint64_t wall_ns;         /* since 1970, at the moment of `now_ns` */
    int terminal;             /* a descriptor that stays the caller's; -1: none */
    int warnings;             /* takes warnings where `terminal` is a file or a pipe; -1: none */
    bool quiet;               /* the terminal shows notes only */
};

struct gyre_step_record {
    uint64_t step; /* of the run, from 1 */
    uint64_t epoch;
    uint64_t samples; /* of all ranks */
    double loss;      /* mean over the samples */
    double accuracy;  /* 0 to 1; -1: absent */
    double learning_rate;
    double gradient_norm;   /* -1: absent */
    double loss_scale;      /* 0: absent */
    double seconds;         /* of the step */
    double exposed_seconds; /* the part of `seconds` spent waiting for communication */
    uint64_t reduced_bytes;
};

struct gyre_epoch_record {
    uint64_t epoch;
    uint64_t steps;
    double loss;     /* mean over the epoch's samples */
    double accuracy; /* -1: absent */
    bool tested;     /* the next two fields are valid */
    double test_loss;
    double test_accuracy; /* -1: absent */
    bool validated;       /* the next two fields are valid */
    double validation_loss;
    double validation_accuracy; /* -1: absent */
    double seconds;
    double samples_per_second;
    double exposed_share; /* 0 to 1; -1: absent */
};

/* Opens a report. `now_ns` of all calls is one clock that never goes back. After a failure *report
 * is NULL. -errno: a path cannot be opened; GYRE_INVALID: two paths are the same file. After a
 * failure every file still has its former content. */
int gyre_report_open(struct gyre_report **report, const struct gyre_report_options *options,
                     uint64_t now_ns, struct gyre_trouble *trouble);

/* Write a record. A file that can be written no further is told by the call that finds it, once, by
 * name and with its -errno. The file then ends in a whole line, and the others are written on. The
 * caller decides whether the run goes on. */
int gyre_report_step(struct gyre_report *report, const struct gyre_step_record *record,
                     uint64_t now_ns, struct gyre_trouble *trouble);
int gyre_report_epoch(struct gyre_report *report, const struct gyre_epoch_record *record,
                      uint64_t now_ns, struct gyre_trouble *trouble);

/* Prints a line of its own on the terminal, above the progress line. A text that begins
 * with "warning:" is a warning. */
void gyre_report_note(struct gyre_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Draws the curves, closes the files and frees the report, whatever the status: 0, or, as of a
 * step, a failure that was not told yet. NULL is closed already. */
int gyre_report_close(struct gyre_report *report, struct gyre_trouble *trouble);

/* Reads a line of `metrics` again. False: the line is no such record, or torn. What is null is
 * absent, or NaN. */
bool gyre_report_read_step(const char *line, struct gyre_step_record *record);
bool gyre_report_read_epoch(const char *line, struct gyre_epoch_record *record);

#endif
