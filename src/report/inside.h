/* A report's inside, for the files of this room. A file calls only those below it.
 *
 *   report.c     records ─▶ files and terminal
 *   terminal.c   the progress line
 *   chart.c      the loss curve
 *   events.c     TensorBoard's event file
 *   lines.c      JSON and CSV
 *   series.c     curves in fixed memory
 *   scale.c      ends and ticks of an axis
 *   sink.c       files that fail by name
 *   text.c       lines of text
 */
#ifndef GYRE_REPORT_INSIDE_H
#define GYRE_REPORT_INSIDE_H

#include "report/report.h"

#include <stddef.h>
#include <stdio.h>

/* -- text -------------------------------------------------------------------------------------- */

/* A line being made; what does not fit is cut. */
struct gyre_report_text {
    size_t length;
    char bytes[2048];
};

void gyre_report_add(struct gyre_report_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gyre_report_add_count(struct gyre_report_text *text, double count);      /* 12,345 */
void gyre_report_add_duration(struct gyre_report_text *text, double seconds); /* 0:42, 1:02:03 */
void gyre_report_add_real(struct gyre_report_text *text, double value); /* four digits or so */

/* -- sinks ------------------------------------------------------------------------------------- */

/* A descriptor that is written in whole pieces. The first failure closes it; later pieces are
 * dropped, so callers need not look before the end of their call. All zero: never opened. */
struct gyre_report_sink {
    char *name; /* NULL: never opened */
    int fd;
    bool regular;
    uint64_t length_bytes; /* of a regular file: where the next piece begins */
    int status;            /* the first failure */
    bool told;
};

int gyre_report_sink_open(struct gyre_report_sink *sink, const char *path,
                          struct gyre_trouble *trouble);
int gyre_report_sink_borrow(struct gyre_report_sink *sink, int fd, const char *name,
                            struct gyre_trouble *trouble);
/* After all were opened: an old file is emptied, or its torn last line ended. */
void gyre_report_sink_begin(struct gyre_report_sink *sink, bool append);
void gyre_report_sink_write(struct gyre_report_sink *sink, const void *bytes, size_t length);
/* A failure to close counts as one to write; the name stays, to tell it. */
void gyre_report_sink_close(struct gyre_report_sink *sink);
void gyre_report_sink_deinit(struct gyre_report_sink *sink);

/* -- lines ------------------------------------------------------------------------------------- */

void gyre_report_json_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                           double wall);
void gyre_report_json_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                            double wall);
void gyre_report_csv_heads(struct gyre_report_sink *steps, struct gyre_report_sink *epochs);
void gyre_report_csv_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                          double wall);
void gyre_report_csv_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                           double wall);

/* -- events ------------------------------------------------------------------------------------ */

/* Makes the folder and its parents. */
int gyre_report_events_open(struct gyre_report_sink *sink, const char *folder, double wall,
                            struct gyre_trouble *trouble);
void gyre_report_events_begin(struct gyre_report_sink *to, double wall);
/* One event with the record's values. */
void gyre_report_events_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                             double wall);
void gyre_report_events_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                              double wall);

/* -- fields ------------------------------------------------------------------------------------ */

/* One list of each record's fields serves all three formats. */
struct gyre_report_field {
    const char *name;
    const char *tag; /* of TensorBoard; NULL: not there */
    size_t offset;
    bool whole;    /* uint64_t, otherwise double */
    bool of_test;  /* there only in an epoch that was tested */
    double absent; /* this value means that there is none; NaN: always there */
};

enum { GYRE_STEP_FIELDS = 11, GYRE_EPOCH_FIELDS = 9 };

extern const struct gyre_report_field gyre_report_step_field[GYRE_STEP_FIELDS];
extern const struct gyre_report_field gyre_report_epoch_field[GYRE_EPOCH_FIELDS];

/* False where it is absent. `tested` is that of an epoch, true for steps. */
bool gyre_report_value(const struct gyre_report_field *field, const void *record, bool tested,
                       double *value);

/* -- curves ------------------------------------------------------------------------------------ */

#define GYRE_REPORT_BINS 800

/* Points in order of x, thinned as they come: when all bins are full, neighbours become one. */
struct gyre_report_series {
    struct gyre_report_bin {
        double x, y, low, high; /* means, and the span of y */
        uint64_t points;
    } bin[GYRE_REPORT_BINS];
    uint32_t bins;
    uint64_t width;   /* points of a full bin; 0: nothing was added yet */
    uint64_t dropped; /* points that were not finite */
};

struct gyre_report_curves {
    char *title;
    uint64_t epochs, steps, steps_per_epoch; /* reached, reached, and planned */
    double seconds;
    struct gyre_report_series step_loss, loss, test_loss, accuracy, test_accuracy;
};

void gyre_report_series_add(struct gyre_report_series *series, double x, double y);
void gyre_report_chart(FILE *to, const struct gyre_report_curves *curves);

/* -- terminal ---------------------------------------------------------------------------------- */

struct gyre_report_terminal {
    struct gyre_report_sink *to;
    bool live, colour, blocks, quiet; /* a line can be redrawn; with colours; with block letters */
    uint64_t epochs, steps_per_epoch;
    bool drawn;                       /* the progress line stands there now */
    uint64_t drawn_ns;                /* when it was drawn last; 0: never */
    uint64_t spoken_ns;               /* the last plain line, or the opening */
    uint32_t cells;                   /* of the bar that was drawn last */
    uint64_t first_step, first_ns;    /* of this run */
    uint64_t epoch, epoch_ns;         /* the epoch that runs, and its beginning */
    double samples, seconds, exposed; /* sums of its steps */
};

/* A `to` that was never opened takes nothing, as a sink does. */
void gyre_report_terminal_init(struct gyre_report_terminal *terminal, struct gyre_report_sink *to,
                               const struct gyre_report_options *options, uint64_t now_ns);
void gyre_report_terminal_step(struct gyre_report_terminal *terminal,
                               const struct gyre_step_record *record, uint64_t now_ns);
void gyre_report_terminal_epoch(struct gyre_report_terminal *terminal,
                                const struct gyre_epoch_record *record, uint64_t now_ns);
void gyre_report_terminal_note(struct gyre_report_terminal *terminal, const char *text);
void gyre_report_terminal_end(struct gyre_report_terminal *terminal);

#endif
