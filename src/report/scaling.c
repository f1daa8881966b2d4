/* The table of a training's scaling, as text and as Markdown. Both have the same cells:
 *
 *     ranks   batch   seconds   samples/s   speed-up   efficiency   exposed     loss   accuracy
 *         1      32     0.412      97,088       1.00      100.0 %     0.0 %   0.0325   100.00 %
 *         2      64     0.221     180,995       1.86       93.2 %     4.1 %   0.0411    99.30 %
 *
 * Tested by tests/unit/report/scaling_test.c. */
#include "report/scaling.h"

#include "report/inside.h"

#include <math.h>
#include <string.h>

enum { RANKS, BATCH, SECONDS, RATE, SPEED_UP, EFFICIENCY, EXPOSED, LOSS, ACCURACY, COLUMNS };

static const char *const heads[COLUMNS] = {"ranks",     "batch",    "seconds",
                                           "samples/s", "speed-up", "efficiency",
                                           "exposed",   "loss",     "accuracy"};
/* The least width of a column of text; a longer head makes it wider. */
static const int widths[COLUMNS] = {5, 7, 9, 12, 8, 10, 8, 8, 8};

/* -- one run ----------------------------------------------------------------------------------- */

static void add_epoch(struct gyre_scaling_run *run, const struct gyre_epoch_record *record)
{
    if (record->epoch == 2)
        run->samples = run->seconds = run->exposed = 0;
    run->epochs++;
    run->seconds += record->seconds;
    run->samples += record->samples_per_second * record->seconds;
    run->exposed += record->exposed_share > 0 ? record->exposed_share * record->seconds : 0;
    run->loss = record->tested ? record->test_loss : record->loss;
    run->accuracy = record->tested ? record->test_accuracy : record->accuracy;
}

void gyre_scaling_take(struct gyre_scaling_run *run, const char *line)
{
    struct gyre_epoch_record epoch;
    struct gyre_step_record step;
    if (gyre_report_read_epoch(line, &epoch))
        add_epoch(run, &epoch);
    else if (!run->batch && gyre_report_read_step(line, &step))
        run->batch = step.samples;
}

double gyre_scaling_rate(const struct gyre_scaling_run *run)
{
    return run->seconds > 0 ? run->samples / run->seconds : 0;
}

double gyre_scaling_exposed(const struct gyre_scaling_run *run)
{
    return run->seconds > 0 ? fmin(1, run->exposed / run->seconds) : 0;
}

double gyre_scaling_speed_up(const struct gyre_scaling *scaling, int run)
{
    double first = gyre_scaling_rate(&scaling->run[0]);
    return first > 0 ? gyre_scaling_rate(&scaling->run[run]) / first : 0;
}

double gyre_scaling_efficiency(const struct gyre_scaling *scaling, int run)
{
    return gyre_scaling_speed_up(scaling, run) * scaling->run[0].ranks / scaling->run[run].ranks;
}

/* -- cells ------------------------------------------------------------------------------------- */

static struct gyre_report_text head_of(const struct gyre_scaling *scaling, int column)
{
    struct gyre_report_text text = {0};
    bool tested = scaling->tested && (column == LOSS || column == ACCURACY);
    gyre_report_add(&text, "%s%s", tested ? "test " : "", heads[column]);
    return text;
}

static struct gyre_report_text cell_of(const struct gyre_scaling *scaling, int i, int column)
{
    const struct gyre_scaling_run *run = &scaling->run[i];
    struct gyre_report_text text = {0};
    if (column == RANKS)
        gyre_report_add(&text, "%d", run->ranks);
    else if (column == BATCH)
        gyre_report_add_count(&text, (double)run->batch);
    else if (column == SECONDS)
        gyre_report_add(&text, run->seconds < 100 ? "%.3f" : "%.1f", run->seconds);
    else if (column == RATE)
        gyre_report_add_count(&text, gyre_scaling_rate(run));
    else if (column == SPEED_UP)
        gyre_report_add(&text, "%.2f", gyre_scaling_speed_up(scaling, i));
    else if (column == EFFICIENCY)
        gyre_report_add(&text, "%.1f %%", 100 * gyre_scaling_efficiency(scaling, i));
    else if (column == EXPOSED)
        gyre_report_add(&text, "%.1f %%", 100 * gyre_scaling_exposed(run));
    else if (column == LOSS)
        gyre_report_add_real(&text, run->loss);
    else if (run->accuracy >= 0)
        gyre_report_add(&text, "%.2f %%", 100 * run->accuracy);
    else
        gyre_report_add(&text, "-");
    return text;
}

/* -- text -------------------------------------------------------------------------------------- */

static void put_cell(FILE *to, const struct gyre_scaling *scaling, int column, const char *text)
{
    int head = (int)head_of(scaling, column).length;
    fprintf(to, "%s%*s%s", column ? "  " : "", head > widths[column] ? head : widths[column], text,
            column + 1 < COLUMNS ? "" : "\n");
}

void gyre_scaling_put_head(FILE *to, const struct gyre_scaling *scaling)
{
    fprintf(to, "%s\n%s\n", scaling->title, scaling->rule);
    for (int column = 0; column < COLUMNS; column++)
        put_cell(to, scaling, column, head_of(scaling, column).bytes);
}

void gyre_scaling_put_row(FILE *to, const struct gyre_scaling *scaling, int run)
{
    for (int column = 0; column < COLUMNS; column++)
        put_cell(to, scaling, column, cell_of(scaling, run, column).bytes);
}

/* -- Markdown ---------------------------------------------------------------------------------- */

/* Text of a paragraph, in which no letter means anything but itself. */
static void put_plain(FILE *to, const char *text)
{
    for (; *text; text++)
        fprintf(to, strchr("\\`*_[]<>#|", *text) ? "\\%c" : "%c", *text);
}

void gyre_scaling_put_markdown(FILE *to, const struct gyre_scaling *scaling)
{
    fputs("**", to);
    put_plain(to, scaling->title);
    fputs("**\n\n", to);
    put_plain(to, scaling->rule);
    fputs("\n\n|", to);
    for (int column = 0; column < COLUMNS; column++)
        fprintf(to, " %s |", head_of(scaling, column).bytes);
    fputs("\n|", to);
    for (int column = 0; column < COLUMNS; column++)
        fputs(" ---: |", to);
    for (int run = 0; run < scaling->runs; run++) {
        fputs("\n|", to);
        for (int column = 0; column < COLUMNS; column++)
            fprintf(to, " %s |", cell_of(scaling, run, column).bytes);
    }
    fputs("\n", to);
    for (int i = 0; i < scaling->notes; i++) {
        fputs(i ? "* " : "\n* ", to);
        put_plain(to, scaling->note[i]);
        fputs("\n", to);
    }
}
