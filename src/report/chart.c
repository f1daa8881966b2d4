/* Draws the curves of a run as one SVG: loss above, accuracy below if there is any.
 *
 *     title
 *     loss                         ┄ by step  ─●─ by epoch  ─■─ test
 *     │\.__                         range of the steps that share a point, their mean,
 *     │   `---●---●---● training 0.04    and the means of the epochs
 *     accuracy
 *     │   ,---●---●---● training 98.2 %
 *     └─0────1────2────3 epoch
 *
 * An epoch's mean stands in the epoch's middle, amid the steps of which it is the mean; the test of
 * an epoch stands at its end. The x axis counts epochs where their number is known and above one,
 * otherwise steps. Loss has a logarithmic axis if it spans more than a factor of 50. Colours follow
 * the reader's light or dark preference; there is no script and nothing is loaded. */
#include "report/inside.h"

#include <math.h>
#include <string.h>

enum { LOSS_BOTTOM = 364, ACCURACY_TOP = 414, ACCURACY_BOTTOM = 574, AXIS_ROOM = 52 };
/* The least span of an axis of accuracy: a smaller one would magnify noise. */
static const double LEAST_SPAN = 0.05;

static void add_plural(struct gyre_report_text *text, uint64_t count, const char *noun)
{
    gyre_report_add_count(text, (double)count);
    gyre_report_add(text, " %s%s", noun, count == 1 ? "" : "s");
}

static struct gyre_report_text summary_of(const struct gyre_report_curves *curves)
{
    struct gyre_report_text text = {0};
    if (curves->epochs > 0) {
        add_plural(&text, curves->epochs, "epoch");
        gyre_report_add(&text, ", ");
    }
    add_plural(&text, curves->steps, "step");
    gyre_report_add(&text, ", ");
    gyre_report_add_duration(&text, curves->seconds);
    if (curves->step_loss.dropped > 0) {
        gyre_report_add(&text, "; ");
        add_plural(&text, curves->step_loss.dropped, "step");
        gyre_report_add(&text, " without a finite loss");
    }
    return text;
}

static void put_keys(FILE *to, const struct gyre_report_curves *curves)
{
    double x = GYRE_PAGE_RIGHT;
    if (curves->test_loss.bins + curves->test_accuracy.bins > 0)
        gyre_report_page_key(to, x -= 34 + 7 * (double)strlen(curves->tested), "test",
                             curves->tested);
    if (curves->loss.bins + curves->accuracy.bins > 0)
        gyre_report_page_key(to, x -= 152, "train", "training, by epoch");
    if (curves->step_loss.bins > 0)
        gyre_report_page_key(to, x - 148, "step", "training, by step");
}

/* -- axes -------------------------------------------------------------------------------------- */

static void put_axes(const struct gyre_report_panel *panel, const char *name)
{
    double tick[GYRE_REPORT_TICKS];
    gyre_report_panel_begin(panel, name);
    for (int i = 0, ticks = gyre_report_scale_ticks(&panel->x, tick); i < ticks; i++)
        gyre_report_panel_tick(panel, tick[i]);
}

/* -- curves ------------------------------------------------------------------------------------ */

static void put_band(const struct gyre_report_panel *panel, const struct gyre_report_series *series)
{
    if (series->width < 2)
        return;
    fprintf(panel->to, "<path class=\"band\" d=\"");
    for (uint32_t i = 0; i < series->bins; i++)
        fprintf(panel->to, "%c%.1f %.1f", i ? 'L' : 'M',
                gyre_report_panel_x(panel, &series->bin[i]),
                gyre_report_panel_y(panel, series->bin[i].high));
    for (uint32_t i = series->bins; i-- > 0;)
        fprintf(panel->to, "L%.1f %.1f", gyre_report_panel_x(panel, &series->bin[i]),
                gyre_report_panel_y(panel, series->bin[i].low));
    fprintf(panel->to, "z\"/>\n");
}

/* -- panels ------------------------------------------------------------------------------------ */

static void widen(const struct gyre_report_series *series, double *low, double *high)
{
    for (uint32_t i = 0; i < series->bins; i++) {
        *low = fmin(*low, series->bin[i].y);
        *high = fmax(*high, series->bin[i].y);
    }
}

static void put_loss(struct gyre_report_panel *panel, const struct gyre_report_curves *curves)
{
    double low = INFINITY, high = -INFINITY;
    widen(&curves->step_loss, &low, &high);
    widen(&curves->loss, &low, &high);
    widen(&curves->test_loss, &low, &high);
    bool log = low > 0 && high / low > 50;
    panel->y = log ? gyre_report_scale_logarithmic(low, high)
                   : gyre_report_scale_linear(low > 0 ? 0 : low, high, 6);
    panel->y.from = LOSS_BOTTOM;
    panel->y.to = GYRE_PAGE_TOP;
    panel->percent = false;
    put_axes(panel, log ? "loss, logarithmic" : "loss");
    put_band(panel, &curves->step_loss);
    gyre_report_panel_line(panel, &curves->step_loss, "step");
    gyre_report_panel_line(panel, &curves->loss, "train");
    gyre_report_panel_line(panel, &curves->test_loss, "test");
    gyre_report_panel_marks(panel, &curves->loss, false);
    gyre_report_panel_marks(panel, &curves->test_loss, true);
    gyre_report_panel_ends(panel, curves->loss.bins ? &curves->loss : &curves->step_loss,
                           &curves->test_loss, (const char *[]){"training", curves->tested});
}

static void put_accuracy(struct gyre_report_panel *panel, const struct gyre_report_curves *curves)
{
    double low = INFINITY, high = -INFINITY;
    widen(&curves->accuracy, &low, &high);
    widen(&curves->test_accuracy, &low, &high);
    panel->y = gyre_report_scale_linear(fmax(0, fmin(low, high - LEAST_SPAN) * 100), high * 100, 4);
    panel->y.low = fmax(0, panel->y.low);
    panel->y.high = fmin(100, panel->y.high);
    panel->y.from = ACCURACY_BOTTOM;
    panel->y.to = ACCURACY_TOP;
    panel->percent = true;
    put_axes(panel, "accuracy");
    gyre_report_panel_line(panel, &curves->accuracy, "train");
    gyre_report_panel_line(panel, &curves->test_accuracy, "test");
    gyre_report_panel_marks(panel, &curves->accuracy, false);
    gyre_report_panel_marks(panel, &curves->test_accuracy, true);
    gyre_report_panel_ends(panel, &curves->accuracy, &curves->test_accuracy,
                           (const char *[]){"training", curves->tested});
}

/* The x axis. It begins at 0, but that of a resumed run where the run begins. */
static struct gyre_report_scale x_scale(const struct gyre_report_curves *curves, double unit)
{
    double first = curves->step_loss.bins ? curves->step_loss.bin[0].x / unit : 0;
    double last = fmax((double)curves->steps / unit, 1 / unit);
    struct gyre_report_scale scale =
        gyre_report_scale_linear(first > last / 5 ? first : 0, last, 8);
    if (unit == 1 || scale.step < 1)
        scale.step = fmax(1, scale.step);
    scale.low = first > last / 5 ? first : 0;
    scale.high = last > scale.low ? last : scale.low + 1;
    scale.from = GYRE_PAGE_LEFT;
    scale.to = GYRE_PAGE_RIGHT;
    return scale;
}

void gyre_report_chart(FILE *to, const struct gyre_report_curves *curves)
{
    bool epochs = curves->steps_per_epoch > 0 && curves->steps > curves->steps_per_epoch;
    bool accuracy = curves->accuracy.bins + curves->test_accuracy.bins > 0;
    bool loss = curves->step_loss.bins + curves->loss.bins + curves->test_loss.bins > 0;
    double bottom = accuracy ? ACCURACY_BOTTOM : LOSS_BOTTOM;
    struct gyre_report_panel panel = {.to = to,
                                      .unit = epochs ? (double)curves->steps_per_epoch : 1};
    panel.x = x_scale(curves, panel.unit);
    struct gyre_report_text summary = summary_of(curves);
    gyre_report_page_begin(to, curves->title, summary.bytes, bottom + AXIS_ROOM);
    put_keys(to, curves);
    if (loss)
        put_loss(&panel, curves);
    else
        fprintf(to, "<text x=\"%d\" y=\"%d\">no finite loss was reported</text>\n", GYRE_PAGE_LEFT,
                GYRE_PAGE_TOP + 40);
    if (accuracy)
        put_accuracy(&panel, curves);
    fprintf(to, "<text class=\"faint\" text-anchor=\"middle\" x=\"%d\" y=\"%.0f\">%s</text>\n",
            (GYRE_PAGE_LEFT + GYRE_PAGE_RIGHT) / 2, bottom + 38, epochs ? "epoch" : "step");
    fprintf(to, "</svg>\n");
}
