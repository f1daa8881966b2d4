/* The curves of a run as one SVG: loss above, accuracy below if there was any.
 *
 *     title
 *     loss                         ┄ by step  ─●─ by epoch  ─■─ test
 *     │\.__                         span of the steps that share a point, their mean,
 *     │   `---●---●---● training 0.04    and the means of the epochs
 *     accuracy
 *     │   ,---●---●---● training 98.2 %
 *     └─0────1────2────3 epoch
 *
 * An epoch's mean stands in its middle, where it meets the steps that it is the mean of; its test
 * at its end. The x axis counts epochs where they are known and more than one, otherwise steps.
 * Loss stands on a logarithmic axis if it spans more than a factor of 50. Colours follow the
 * reader's light or dark preference; there is no script and nothing is loaded. */
#include "report/inside.h"
#include "report/scale.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 880, LEFT = 64, RIGHT = 756, TOP = 84, LOSS_BOTTOM = 364 };
enum { ACCURACY_TOP = 414, ACCURACY_BOTTOM = 574, AXIS_ROOM = 52 };
/* Of an axis of accuracy: less would show noise as if it were news. */
static const double LEAST_SPAN = 0.05;

enum { LABEL_LEADING = 15, MOST_MARKS = 50 };

struct panel {
    FILE *to;
    struct gyre_report_scale x, y;
    double unit; /* steps per unit of x */
    bool percent;
};

/* -- words ------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 letter at `text` that XML allows, 0 if there is none. */
static int letter(const unsigned char *text)
{
    if (text[0] < 0x80)
        return text[0] >= 0x20 && text[0] != 0x7f;
    int length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    uint32_t code = text[0] & (0x7fu >> length);
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    bool wide = code >= (length == 2 ? 0x80u : length == 3 ? 0x800u : 0x10000u);
    bool known = code < 0xd800 || (code > 0xdfff && code < 0xfffe) || code > 0xffff;
    return wide && known && code < 0x110000 ? length : 0;
}

static void put_escaped(FILE *to, const char *text)
{
    for (const char *at = text; *at;) {
        int length = letter((const unsigned char *)at);
        if (*at == '&' || *at == '<' || *at == '>')
            fprintf(to, "&#%d;", *at);
        else if (length > 0)
            fprintf(to, "%.*s", length, at);
        else
            fputc('?', to);
        at += length > 0 ? length : 1;
    }
}

static void put_number(const struct panel *panel, const struct gyre_report_scale *scale,
                       double value)
{
    double step = scale->log ? value : scale->step;
    int decimals = (int)fmax(0, -floor(log10(step) + 1e-6));
    struct gyre_report_text text = {0};
    if (value != 0 && (fabs(value) >= 1e9 || fabs(value) < 1e-4))
        gyre_report_add(&text, "%.3g", value);
    else if (decimals > 0)
        gyre_report_add(&text, "%.*f", decimals, value);
    else if (value < 0)
        gyre_report_add(&text, "%.0f", value);
    else
        gyre_report_add_count(&text, value);
    fprintf(panel->to, "%s", text.bytes);
}

static void put_head(FILE *to, const struct gyre_report_curves *curves, double height)
{
    static const char style[] =
        "  .page { fill: #ffffff }  text { fill: #1f2328; font: 12px system-ui, sans-serif }\n"
        "  .title { font-size: 15px; font-weight: 600 }  .faint { fill: #59636e }\n"
        "  .grid { stroke: #d1d9e0 }  .line { fill: none; stroke-linejoin: round }\n"
        "  .step { stroke: #54aeff; stroke-width: 1.1 }  .band { fill: #54aeff; opacity: .22 }\n"
        "  .train { stroke: #0969da; stroke-width: 2.2 }  .in-train { fill: #0969da }\n"
        "  .test { stroke: #bc4c00; stroke-width: 2.2 }  .in-test { fill: #bc4c00 }\n"
        "  @media (prefers-color-scheme: dark) {\n"
        "    .page { fill: #0d1117 }  text { fill: #f0f6fc }  .faint { fill: #9198a1 }\n"
        "    .grid { stroke: #3d444d }\n"
        "    .step { stroke: #388bfd; opacity: .8 }  .band { fill: #388bfd; opacity: .28 }\n"
        "    .train { stroke: #79c0ff }  .in-train { fill: #79c0ff }\n"
        "    .test { stroke: #f0883e }  .in-test { fill: #f0883e }\n"
        "  }\n";
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
            "height=\"%.0f\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    put_escaped(to, curves->title);
    fprintf(to,
            "</title>\n<style>\n%s</style>\n"
            "<rect class=\"page\" width=\"%d\" height=\"%.0f\" rx=\"6\"/>\n",
            style, WIDTH, height);
    fprintf(to, "<text class=\"title\" x=\"%d\" y=\"30\">", LEFT);
    put_escaped(to, curves->title);
    fprintf(to, "</text>\n");
}

static void add_plural(struct gyre_report_text *text, uint64_t count, const char *noun)
{
    gyre_report_add_count(text, (double)count);
    gyre_report_add(text, " %s%s", noun, count == 1 ? "" : "s");
}

static void put_summary(FILE *to, const struct gyre_report_curves *curves)
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
    fprintf(to, "<text class=\"faint\" x=\"%d\" y=\"48\">%s</text>\n", LEFT, text.bytes);
}

static void put_chart_key(FILE *to, double x, const char *class, const char *word)
{
    fprintf(to, "<path class=\"line %s\" d=\"M%.0f 70h24\"/>\n", class, x);
    if (strcmp(class, "train") == 0)
        fprintf(to, "<circle class=\"in-train\" cx=\"%.0f\" cy=\"70\" r=\"3.2\"/>\n", x + 12);
    if (strcmp(class, "test") == 0)
        fprintf(to, "<rect class=\"in-test\" x=\"%.0f\" y=\"67\" width=\"6\" height=\"6\"/>\n",
                x + 9);
    fprintf(to, "<text x=\"%.0f\" y=\"74\">%s</text>\n", x + 31, word);
}

static void put_keys(FILE *to, const struct gyre_report_curves *curves)
{
    double x = RIGHT;
    if (curves->test_loss.bins + curves->test_accuracy.bins > 0)
        put_chart_key(to, x -= 62, "test", "test");
    if (curves->loss.bins + curves->accuracy.bins > 0)
        put_chart_key(to, x -= 152, "train", "training, by epoch");
    if (curves->step_loss.bins > 0)
        put_chart_key(to, x - 148, "step", "training, by step");
}

/* -- axes -------------------------------------------------------------------------------------- */

static void tick_x(const struct panel *panel, double value)
{
    double x = gyre_report_scale_place(&panel->x, value);
    fprintf(panel->to, "<path class=\"grid\" d=\"M%.1f %.1fv5\"/>\n", x, panel->y.from);
    fprintf(panel->to, "<text class=\"faint\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", x,
            panel->y.from + 19);
    put_number(panel, &panel->x, value);
    fprintf(panel->to, "</text>\n");
}

static void tick_y(const struct panel *panel, double value)
{
    double y = gyre_report_scale_place(&panel->y, value);
    fprintf(panel->to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y, RIGHT);
    fprintf(panel->to, "<text class=\"faint\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">", LEFT - 8,
            y + 4);
    put_number(panel, &panel->y, value);
    fprintf(panel->to, "%s</text>\n", panel->percent ? " %" : "");
}

static void put_axes(const struct panel *panel, const char *name)
{
    double tick[GYRE_REPORT_TICKS];
    fprintf(panel->to, "<text x=\"%d\" y=\"%.0f\">%s</text>\n", LEFT, panel->y.to - 10, name);
    for (int i = 0, ticks = gyre_report_scale_ticks(&panel->y, tick); i < ticks; i++)
        tick_y(panel, tick[i]);
    for (int i = 0, ticks = gyre_report_scale_ticks(&panel->x, tick); i < ticks; i++)
        tick_x(panel, tick[i]);
}

/* -- curves ------------------------------------------------------------------------------------ */

static double x_of(const struct panel *panel, const struct gyre_report_bin *bin)
{
    return gyre_report_scale_place(&panel->x, bin->x / panel->unit);
}

static double y_of(const struct panel *panel, double value)
{
    return gyre_report_scale_place(&panel->y, panel->percent ? value * 100 : value);
}

static void put_band(const struct panel *panel, const struct gyre_report_series *series)
{
    if (series->width < 2)
        return;
    fprintf(panel->to, "<path class=\"band\" d=\"");
    for (uint32_t i = 0; i < series->bins; i++)
        fprintf(panel->to, "%c%.1f %.1f", i ? 'L' : 'M', x_of(panel, &series->bin[i]),
                y_of(panel, series->bin[i].high));
    for (uint32_t i = series->bins; i-- > 0;)
        fprintf(panel->to, "L%.1f %.1f", x_of(panel, &series->bin[i]),
                y_of(panel, series->bin[i].low));
    fprintf(panel->to, "z\"/>\n");
}

static void put_line(const struct panel *panel, const struct gyre_report_series *series,
                     const char *class)
{
    if (series->bins == 0)
        return;
    fprintf(panel->to, "<path class=\"line %s\" d=\"", class);
    for (uint32_t i = 0; i < series->bins; i++)
        fprintf(panel->to, "%c%.1f %.1f", i ? 'L' : 'M', x_of(panel, &series->bin[i]),
                y_of(panel, series->bin[i].y));
    fprintf(panel->to, "\"/>\n");
}

static void put_marks(const struct panel *panel, const struct gyre_report_series *series, bool test)
{
    for (uint32_t i = 0; series->bins <= MOST_MARKS && i < series->bins; i++) {
        double x = x_of(panel, &series->bin[i]), y = y_of(panel, series->bin[i].y);
        if (test)
            fprintf(panel->to,
                    "<rect class=\"in-test\" x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\"/>\n",
                    x - 3, y - 3);
        else
            fprintf(panel->to, "<circle class=\"in-train\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"/>\n",
                    x, y);
    }
}

static void put_end(const struct panel *panel, double y, const char *class, const char *word,
                    double value)
{
    struct gyre_report_text text = {0};
    if (panel->percent)
        gyre_report_add(&text, "%.2f %%", value * 100);
    else
        gyre_report_add_real(&text, value);
    fprintf(panel->to, "<text class=\"%s\" x=\"%d\" y=\"%.1f\">%s %s</text>\n", class, RIGHT + 10,
            y + 4, word, text.bytes);
}

/* Where the curves ended, beside their ends but never on each other. */
static void put_ends(const struct panel *panel, const struct gyre_report_series *train,
                     const struct gyre_report_series *test)
{
    double last = train->bins ? train->bin[train->bins - 1].y : 0;
    double tested = test->bins ? test->bin[test->bins - 1].y : 0;
    double y = y_of(panel, last), test_y = y_of(panel, tested);
    if (train->bins && test->bins && fabs(y - test_y) < LABEL_LEADING) {
        double middle = (y + test_y) / 2, half = y < test_y ? 0.5 : -0.5;
        y = middle - half * LABEL_LEADING;
        test_y = middle + half * LABEL_LEADING;
    }
    if (train->bins)
        put_end(panel, y, "in-train", "training", last);
    if (test->bins)
        put_end(panel, test_y, "in-test", "test", tested);
}

/* -- panels ------------------------------------------------------------------------------------ */

static void widen(const struct gyre_report_series *series, double *low, double *high)
{
    for (uint32_t i = 0; i < series->bins; i++) {
        *low = fmin(*low, series->bin[i].y);
        *high = fmax(*high, series->bin[i].y);
    }
}

static void put_loss(struct panel *panel, const struct gyre_report_curves *curves)
{
    double low = INFINITY, high = -INFINITY;
    widen(&curves->step_loss, &low, &high);
    widen(&curves->loss, &low, &high);
    widen(&curves->test_loss, &low, &high);
    bool log = low > 0 && high / low > 50;
    panel->y = log ? gyre_report_scale_logarithmic(low, high)
                   : gyre_report_scale_linear(low > 0 ? 0 : low, high, 6);
    panel->y.from = LOSS_BOTTOM;
    panel->y.to = TOP;
    panel->percent = false;
    put_axes(panel, log ? "loss, logarithmic" : "loss");
    put_band(panel, &curves->step_loss);
    put_line(panel, &curves->step_loss, "step");
    put_line(panel, &curves->loss, "train");
    put_line(panel, &curves->test_loss, "test");
    put_marks(panel, &curves->loss, false);
    put_marks(panel, &curves->test_loss, true);
    put_ends(panel, curves->loss.bins ? &curves->loss : &curves->step_loss, &curves->test_loss);
}

static void put_accuracy(struct panel *panel, const struct gyre_report_curves *curves)
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
    put_line(panel, &curves->accuracy, "train");
    put_line(panel, &curves->test_accuracy, "test");
    put_marks(panel, &curves->accuracy, false);
    put_marks(panel, &curves->test_accuracy, true);
    put_ends(panel, &curves->accuracy, &curves->test_accuracy);
}

/* From 0, but for a resumed run, which begins where it does. */
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
    scale.from = LEFT;
    scale.to = RIGHT;
    return scale;
}

void gyre_report_chart(FILE *to, const struct gyre_report_curves *curves)
{
    bool epochs = curves->steps_per_epoch > 0 && curves->steps > curves->steps_per_epoch;
    bool accuracy = curves->accuracy.bins + curves->test_accuracy.bins > 0;
    bool loss = curves->step_loss.bins + curves->loss.bins + curves->test_loss.bins > 0;
    double bottom = accuracy ? ACCURACY_BOTTOM : LOSS_BOTTOM;
    struct panel panel = {.to = to, .unit = epochs ? (double)curves->steps_per_epoch : 1};
    panel.x = x_scale(curves, panel.unit);
    put_head(to, curves, bottom + AXIS_ROOM);
    put_summary(to, curves);
    put_keys(to, curves);
    if (loss)
        put_loss(&panel, curves);
    else
        fprintf(to, "<text x=\"%d\" y=\"%d\">no finite loss was reported</text>\n", LEFT, TOP + 40);
    if (accuracy)
        put_accuracy(&panel, curves);
    fprintf(to, "<text class=\"faint\" text-anchor=\"middle\" x=\"%d\" y=\"%.0f\">%s</text>\n",
            (LEFT + RIGHT) / 2, bottom + 38, epochs ? "epoch" : "step");
    fprintf(to, "</svg>\n");
}
