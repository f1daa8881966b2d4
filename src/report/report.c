/* A report is a row of sinks; each record passes them in this order:
 *
 *     record ──▶ metrics ──▶ csv ──▶ events ──▶ curves, in memory ──▶ terminal
 *                   │
 *                   └─ fails: closed, its story told by this call; the others go on
 *
 * Numbers are written as in the C locale, whatever locale the program has set for its own
 * thread. */
#include "report/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { METRICS, CSV, CSV_EPOCHS, EVENTS, CHART, TERMINAL, WARNINGS, SINKS };

struct gyre_report {
    struct gyre_report_sink sink[SINKS];
    struct gyre_report_terminal terminal;
    struct gyre_report_curves curves;
    locale_t plain;
    uint64_t begun_ns;
    double begun_wall;
};

static double wall_at(const struct gyre_report *report, uint64_t now_ns)
{
    return report->begun_wall + (double)(now_ns - report->begun_ns) / 1e9;
}

/* -- failures ---------------------------------------------------------------------------------- */

/* Tells every failure since the last call, in one sentence each. The status is that of the
 * first. */
static int tell_trouble(struct gyre_report *report, struct gyre_trouble *trouble, const char *at,
                        uint64_t number)
{
    struct gyre_report_text text = {0};
    int status = 0;
    for (int i = 0; i < SINKS; i++) {
        struct gyre_report_sink *sink = &report->sink[i];
        if (!sink->status || sink->told)
            continue;
        gyre_report_add(&text, "%swriting %s at %s", status ? "; " : "", sink->name, at);
        if (number > 0)
            gyre_report_add(&text, " %" PRIu64, number);
        gyre_report_add(&text, ": %s, so nothing after that is in it", strerror(-sink->status));
        status = status ? status : sink->status;
        sink->told = true;
    }
    return status ? gyre_trouble_set(trouble, status, "%s", text.bytes) : 0;
}

/* -- opening ----------------------------------------------------------------------------------- */

/* The path of the epochs' file: runs/a.csv becomes runs/a-epochs.csv; runs.d/a becomes
 * runs.d/a-epochs. */
static char *epochs_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    char *made;
    return asprintf(&made, "%.*s-epochs%s", (int)stem, path, path + stem) < 0 ? NULL : made;
}

static int open_table(struct gyre_report *report, const char *path, struct gyre_trouble *trouble)
{
    char *beside = epochs_path(path);
    if (!beside)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the name beside %s", path);
    int status = gyre_report_sink_open(&report->sink[CSV], path, trouble);
    if (!status)
        status = gyre_report_sink_open(&report->sink[CSV_EPOCHS], beside, trouble);
    free(beside);
    return status;
}

static int open_sinks(struct gyre_report *report, const struct gyre_report_options *options,
                      struct gyre_trouble *trouble)
{
    struct gyre_report_sink *sink = report->sink;
    int status = 0;
    if (options->metrics)
        status = gyre_report_sink_open(&sink[METRICS], options->metrics, trouble);
    if (!status && options->csv)
        status = open_table(report, options->csv, trouble);
    if (!status && options->svg)
        status = gyre_report_sink_open(&sink[CHART], options->svg, trouble);
    if (!status && options->terminal >= 0)
        status =
            gyre_report_sink_borrow(&sink[TERMINAL], options->terminal, "the terminal", trouble);
    if (!status && options->warnings >= 0)
        status =
            gyre_report_sink_borrow(&sink[WARNINGS], options->warnings, "standard error", trouble);
    if (!status && options->tensorboard)
        status = gyre_report_events_open(&sink[EVENTS], options->tensorboard, report->begun_wall,
                                         trouble);
    return status;
}

static int refuse_twins(const struct gyre_report *report, struct gyre_trouble *trouble)
{
    struct stat a, b;
    for (int i = 0; i < TERMINAL; i++)
        for (int j = 0; j < i; j++) {
            const struct gyre_report_sink *one = &report->sink[i], *other = &report->sink[j];
            if (!one->regular || !other->regular || fstat(one->fd, &a) || fstat(other->fd, &b))
                continue;
            if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
                return gyre_trouble_set(trouble, GYRE_INVALID,
                                        "%s and %s are one file; give each report its own",
                                        other->name, one->name);
        }
    return 0;
}

static void begin_report(struct gyre_report *report, bool append)
{
    for (int i = METRICS; i <= CSV_EPOCHS; i++)
        gyre_report_sink_begin(&report->sink[i], append);
    gyre_report_csv_heads(&report->sink[CSV], &report->sink[CSV_EPOCHS]);
    gyre_report_events_begin(&report->sink[EVENTS], report->begun_wall);
}

static void discard(struct gyre_report *report)
{
    if (!report)
        return;
    for (int i = 0; i < SINKS; i++)
        gyre_report_sink_deinit(&report->sink[i]);
    if (report->plain)
        freelocale(report->plain);
    free(report->curves.title);
    free(report);
}

static struct gyre_report *create_report(const struct gyre_report_options *options, uint64_t now_ns)
{
    struct gyre_report *report = calloc(1, sizeof *report);
    if (!report)
        return NULL;
    report->plain = newlocale(LC_ALL_MASK, "C", NULL);
    report->curves.title = strdup(options->title ? options->title : "training");
    report->curves.steps_per_epoch = options->steps_per_epoch;
    report->begun_ns = now_ns;
    report->begun_wall = (double)options->wall_ns / 1e9;
    if (report->plain && report->curves.title)
        return report;
    discard(report);
    return NULL;
}

int gyre_report_open(struct gyre_report **report, const struct gyre_report_options *options,
                     uint64_t now_ns, struct gyre_trouble *trouble)
{
    struct gyre_report *made = create_report(options, now_ns);
    *report = NULL;
    if (!made)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a report of %zu bytes",
                                sizeof *made);
    int status = open_sinks(made, options, trouble);
    if (!status)
        status = refuse_twins(made, trouble);
    if (!status) {
        locale_t before = uselocale(made->plain);
        begin_report(made, options->append);
        uselocale(before);
        gyre_report_terminal_init(&made->terminal, &made->sink[TERMINAL], &made->sink[WARNINGS],
                                  options, now_ns);
        status = tell_trouble(made, trouble, "its beginning", 0);
    }
    if (status)
        discard(made);
    else
        *report = made;
    return status;
}

/* -- records ----------------------------------------------------------------------------------- */

static void extend_curves(struct gyre_report_curves *curves, uint64_t steps, double seconds)
{
    curves->steps = steps > curves->steps ? steps : curves->steps;
    curves->seconds = seconds;
}

int gyre_report_step(struct gyre_report *report, const struct gyre_step_record *record,
                     uint64_t now_ns, struct gyre_trouble *trouble)
{
    double wall = wall_at(report, now_ns);
    locale_t before = uselocale(report->plain);
    gyre_report_json_step(&report->sink[METRICS], record, wall);
    gyre_report_csv_step(&report->sink[CSV], record, wall);
    gyre_report_events_step(&report->sink[EVENTS], record, wall);
    gyre_report_series_add(&report->curves.step_loss, (double)record->step, record->loss);
    extend_curves(&report->curves, record->step, wall - report->begun_wall);
    gyre_report_terminal_step(&report->terminal, record, now_ns);
    uselocale(before);
    return tell_trouble(report, trouble, "step", record->step);
}

static void take_epoch(struct gyre_report_curves *curves, const struct gyre_epoch_record *record)
{
    double end = (double)curves->steps, middle = end - (double)record->steps / 2;
    curves->epochs++;
    gyre_report_series_add(&curves->loss, middle, record->loss);
    if (record->accuracy >= 0)
        gyre_report_series_add(&curves->accuracy, middle, record->accuracy);
    bool validated = record->validated;
    double loss = validated ? record->validation_loss : record->test_loss;
    double accuracy = validated ? record->validation_accuracy : record->test_accuracy;
    curves->tested = validated ? "validation" : "test";
    if (validated || record->tested)
        gyre_report_series_add(&curves->test_loss, end, loss);
    if ((validated || record->tested) && accuracy >= 0)
        gyre_report_series_add(&curves->test_accuracy, end, accuracy);
}

int gyre_report_epoch(struct gyre_report *report, const struct gyre_epoch_record *record,
                      uint64_t now_ns, struct gyre_trouble *trouble)
{
    double wall = wall_at(report, now_ns);
    locale_t before = uselocale(report->plain);
    gyre_report_json_epoch(&report->sink[METRICS], record, wall);
    gyre_report_csv_epoch(&report->sink[CSV_EPOCHS], record, wall);
    gyre_report_events_epoch(&report->sink[EVENTS], record, wall);
    take_epoch(&report->curves, record);
    report->curves.seconds = wall - report->begun_wall;
    gyre_report_terminal_epoch(&report->terminal, record, now_ns);
    uselocale(before);
    return tell_trouble(report, trouble, "the end of epoch", record->epoch);
}

void gyre_report_note(struct gyre_report *report, const char *format, ...)
{
    char text[GYRE_TROUBLE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    gyre_report_terminal_note(&report->terminal, text);
}

/* -- closing ----------------------------------------------------------------------------------- */

static void draw_curves(struct gyre_report *report)
{
    struct gyre_report_sink *sink = &report->sink[CHART];
    char *drawn = NULL;
    size_t length = 0;
    if (!sink->name)
        return;
    FILE *memory = open_memstream(&drawn, &length);
    if (memory)
        gyre_report_chart(memory, &report->curves);
    if (!memory || fclose(memory) != 0) {
        sink->status = -ENOMEM;
    } else {
        gyre_report_sink_begin(sink, false);
        gyre_report_sink_write(sink, drawn, length);
    }
    free(drawn);
}

int gyre_report_close(struct gyre_report *report, struct gyre_trouble *trouble)
{
    if (!report)
        return 0;
    locale_t before = uselocale(report->plain);
    gyre_report_terminal_end(&report->terminal);
    draw_curves(report);
    uselocale(before);
    for (int i = 0; i < SINKS; i++)
        gyre_report_sink_close(&report->sink[i]);
    int status = tell_trouble(report, trouble, "the end", 0);
    discard(report);
    return status;
}
