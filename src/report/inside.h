/* The inside of a report, for the files of this room. A file calls only files listed below it.
 *
 *   report.c     records ─▶ files and terminal
 *   terminal.c   the progress line
 *   chart.c      the loss curve
 *   scaling.c, scaling_chart.c   a training on several numbers of ranks: table and drawing
 *   page.c       a drawing's page, axes and lines
 *   events.c     TensorBoard's event file
 *   lines.c      JSON and CSV
 *   series.c     curves in fixed memory
 *   scale.c      ends and ticks of an axis
 *   sink.c       files that fail by name
 *   text.c       lines of text */
#ifndef GYRE_REPORT_INSIDE_H
#define GYRE_REPORT_INSIDE_H

#include "report/report.h"
#include "report/scale.h"
#include "report/text.h"

#include <stddef.h>
#include <stdio.h>

/* -- sinks ------------------------------------------------------------------------------------- */

/* A descriptor to which whole pieces are written. The first failure closes it, and later pieces are
 * dropped, so callers need not look before the end of their call. All zero: never opened. */
struct gyre_report_sink {
    char *name; /* NULL: never opened */
    int fd;
    bool regular;
    uint64_t length_bytes; /* of a regular file: the place of the next piece */
    int status;            /* the first failure */
    bool told;
};

int gyre_report_sink_open(struct gyre_report_sink *sink, const char *path,
                          struct gyre_trouble *trouble);
int gyre_report_sink_borrow(struct gyre_report_sink *sink, int fd, const char *name,
                            struct gyre_trouble *trouble);
/* Empties an old file, or ends its torn last line. Called once all sinks are open. */
void gyre_report_sink_begin(struct gyre_report_sink *sink, bool append);
void gyre_report_sink_write(struct gyre_report_sink *sink, const void *bytes, size_t length);
/* Closes the sink. A failure to close counts as a failure to write. The name stays, so that a
 * message can tell it. */
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

/* Opens the event file; makes the folder and its parents. */
int gyre_report_events_open(struct gyre_report_sink *sink, const char *folder, double wall,
                            struct gyre_trouble *trouble);
void gyre_report_events_begin(struct gyre_report_sink *to, double wall);
/* Write one event with the record's values. */
void gyre_report_events_step(struct gyre_report_sink *to, const struct gyre_step_record *record,
                             double wall);
void gyre_report_events_epoch(struct gyre_report_sink *to, const struct gyre_epoch_record *record,
                              double wall);

/* -- fields ------------------------------------------------------------------------------------ */

/* One field of a record. One list of fields for each kind of record serves all three formats. */
struct gyre_report_field {
    const char *name;
    const char *tag; /* of TensorBoard; NULL: not written there */
    size_t offset;
    bool whole;    /* a uint64_t, otherwise a double */
    size_t given;  /* offset of the bool that says whether it is present; 0: it is */
    double absent; /* the value that means absent; NaN: never absent */
};

enum { GYRE_STEP_FIELDS = 11, GYRE_EPOCH_FIELDS = 11 };

extern const struct gyre_report_field gyre_report_step_field[GYRE_STEP_FIELDS];
extern const struct gyre_report_field gyre_report_epoch_field[GYRE_EPOCH_FIELDS];

/* Reads a field. False: absent. */
bool gyre_report_value(const struct gyre_report_field *field, const void *record, double *value);

/* -- curves ------------------------------------------------------------------------------------ */

#define GYRE_REPORT_BINS 800

/* Points in order of x, thinned as they come: where all bins are full, two neighbours become
 * one. */
struct gyre_report_series {
    struct gyre_report_bin {
        double x, y, low, high; /* means, and the range of y */
        uint64_t points;
    } bin[GYRE_REPORT_BINS];
    uint32_t bins;
    uint64_t width;   /* points of a full bin; 0: the series is empty */
    uint64_t dropped; /* points that were not finite */
};

struct gyre_report_curves {
    char *title;
    uint64_t epochs, steps, steps_per_epoch; /* reached, reached, and planned */
    double seconds;
    struct gyre_report_series step_loss, loss, test_loss, accuracy, test_accuracy;
    const char *tested; /* what the test curves are of: "test" or "validation" */
};

void gyre_report_series_add(struct gyre_report_series *series, double x, double y);

/* -- drawings ---------------------------------------------------------------------------------- */

enum { GYRE_PAGE_LEFT = 64, GYRE_PAGE_RIGHT = 756, GYRE_PAGE_TOP = 84 }; /* of the panels */

/* The two scales of a panel. `from` and `to` of both are set by the caller. */
struct gyre_report_panel {
    FILE *to;
    struct gyre_report_scale x, y;
    double unit;  /* the x of a series is divided by this */
    bool percent; /* values are shares, 0 to 1 */
};

/* Begins an SVG: title, the line `about` it, and the styles of all classes. */
void gyre_report_page_begin(FILE *to, const char *title, const char *about, double height);
/* Explains a class of lines; `x` is the left end. */
void gyre_report_page_key(FILE *to, double x, const char *class, const char *word);

/* Writes the name and the y axis. */
void gyre_report_panel_begin(const struct gyre_report_panel *panel, const char *name);
void gyre_report_panel_tick(const struct gyre_report_panel *panel,
                            double value); /* of the x axis */
double gyre_report_panel_x(const struct gyre_report_panel *panel,
                           const struct gyre_report_bin *bin);
double gyre_report_panel_y(const struct gyre_report_panel *panel, double value);
void gyre_report_panel_line(const struct gyre_report_panel *panel,
                            const struct gyre_report_series *series, const char *class);
void gyre_report_panel_marks(const struct gyre_report_panel *panel,
                             const struct gyre_report_series *series, bool test);
/* Writes words and last values beside the ends of two series, never on each other. */
void gyre_report_panel_ends(const struct gyre_report_panel *panel,
                            const struct gyre_report_series *train,
                            const struct gyre_report_series *test, const char *const word[2]);

void gyre_report_chart(FILE *to, const struct gyre_report_curves *curves);

/* -- terminal ---------------------------------------------------------------------------------- */

struct gyre_report_terminal {
    struct gyre_report_sink *to, *warnings;
    /* A line can be redrawn; colours are allowed; block letters are allowed. */
    bool live, colour, blocks, quiet;
    uint64_t epochs, steps_per_epoch;
    bool drawn;                       /* the progress line stands there now */
    uint64_t drawn_ns;                /* time of the last drawing; 0: never */
    uint64_t spoken_ns;               /* time of the last plain line, or of opening */
    uint32_t cells;                   /* of the bar as last drawn */
    uint64_t first_step, first_ns;    /* of this run */
    uint64_t epoch, epoch_ns;         /* the running epoch, and its beginning */
    double samples, seconds, exposed; /* sums over the epoch's steps */
};

/* Begins a terminal. A sink that was never opened takes nothing. */
void gyre_report_terminal_init(struct gyre_report_terminal *terminal, struct gyre_report_sink *to,
                               struct gyre_report_sink *warnings,
                               const struct gyre_report_options *options, uint64_t now_ns);
void gyre_report_terminal_step(struct gyre_report_terminal *terminal,
                               const struct gyre_step_record *record, uint64_t now_ns);
void gyre_report_terminal_epoch(struct gyre_report_terminal *terminal,
                                const struct gyre_epoch_record *record, uint64_t now_ns);
void gyre_report_terminal_note(struct gyre_report_terminal *terminal, const char *text);
void gyre_report_terminal_end(struct gyre_report_terminal *terminal);

#endif
