/* What every drawing of a report consists of: a page with a title, keys, and panels with axes.
 *
 *     title
 *     a line about it                       ─●─ key   ─■─ key
 *     name of a panel
 *     │
 *     │   ●───●───● word 0.04              the last value of a line stands beside its end
 *     └──────────────
 *
 * Colours follow the reader's light or dark preference; there is no script and nothing is loaded.
 * Tested by tests/unit/report/chart_test.c. */
#include "base/printable.h"
#include "report/inside.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 892, LABEL_LEADING = 15, MOST_MARKS = 50 };

/* -- words ------------------------------------------------------------------------------------- */

/* The length of the UTF-8 letter at `text` if XML allows it, else 0. */
static int letter(const uint8_t *text, const uint8_t *end)
{
    size_t length = gyre_utf8_length(text, end);
    bool unknown = length == 3 && !memcmp(text, "\xef\xbf", 2) && text[2] >= 0xbe;
    return length == 0 || gyre_is_control(text) || unknown ? 0 : (int)length;
}

static void put_escaped(FILE *to, const char *text)
{
    const uint8_t *end = (const uint8_t *)text + strlen(text);
    for (const char *at = text; *at;) {
        int length = letter((const uint8_t *)at, end);
        if (*at == '&' || *at == '<' || *at == '>')
            fprintf(to, "&#%d;", *at);
        else if (length > 0)
            fprintf(to, "%.*s", length, at);
        else
            fputc('?', to);
        at += length > 0 ? length : 1;
    }
}

static void put_number(const struct gyre_report_panel *panel, const struct gyre_report_scale *scale,
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

/* -- the page ---------------------------------------------------------------------------------- */

void gyre_report_page_begin(FILE *to, const char *title, const char *about, double height)
{
    static const char style[] =
        "  .page { fill: #ffffff }  text { fill: #1f2328; font: 12px system-ui, sans-serif }\n"
        "  .title { font-size: 15px; font-weight: 600 }  .faint { fill: #59636e }\n"
        "  .grid { stroke: #d1d9e0 }  .line { fill: none; stroke-linejoin: round }\n"
        "  .step { stroke: #54aeff; stroke-width: 1.1 }  .band { fill: #54aeff; opacity: .22 }\n"
        "  .train { stroke: #0969da; stroke-width: 2.2 }  .in-train { fill: #0969da }\n"
        "  .test { stroke: #bc4c00; stroke-width: 2.2 }  .in-test { fill: #bc4c00 }\n"
        "  .ideal { stroke: #59636e; stroke-dasharray: 5 4 }\n"
        "  @media (prefers-color-scheme: dark) {\n"
        "    .page { fill: #0d1117 }  text { fill: #f0f6fc }  .faint { fill: #9198a1 }\n"
        "    .grid { stroke: #3d444d }\n"
        "    .step { stroke: #388bfd; opacity: .8 }  .band { fill: #388bfd; opacity: .28 }\n"
        "    .train { stroke: #79c0ff }  .in-train { fill: #79c0ff }\n"
        "    .test { stroke: #f0883e }  .in-test { fill: #f0883e }\n"
        "    .ideal { stroke: #9198a1 }\n"
        "  }\n";
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
            "height=\"%.0f\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    put_escaped(to, title);
    fprintf(to,
            "</title>\n<style>\n%s</style>\n"
            "<rect class=\"page\" width=\"%d\" height=\"%.0f\" rx=\"6\"/>\n",
            style, WIDTH, height);
    fprintf(to, "<text class=\"title\" x=\"%d\" y=\"30\">", GYRE_PAGE_LEFT);
    put_escaped(to, title);
    fprintf(to, "</text>\n<text class=\"faint\" x=\"%d\" y=\"48\">", GYRE_PAGE_LEFT);
    put_escaped(to, about);
    fprintf(to, "</text>\n");
}

void gyre_report_page_key(FILE *to, double x, const char *class, const char *word)
{
    fprintf(to, "<path class=\"line %s\" d=\"M%.0f 70h24\"/>\n", class, x);
    if (strcmp(class, "train") == 0)
        fprintf(to, "<circle class=\"in-train\" cx=\"%.0f\" cy=\"70\" r=\"3.2\"/>\n", x + 12);
    if (strcmp(class, "test") == 0)
        fprintf(to, "<rect class=\"in-test\" x=\"%.0f\" y=\"67\" width=\"6\" height=\"6\"/>\n",
                x + 9);
    fprintf(to, "<text x=\"%.0f\" y=\"74\">%s</text>\n", x + 31, word);
}

/* -- panels ------------------------------------------------------------------------------------ */

void gyre_report_panel_tick(const struct gyre_report_panel *panel, double value)
{
    double x = gyre_report_scale_place(&panel->x, value);
    fprintf(panel->to, "<path class=\"grid\" d=\"M%.1f %.1fv5\"/>\n", x, panel->y.from);
    fprintf(panel->to, "<text class=\"faint\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">", x,
            panel->y.from + 19);
    put_number(panel, &panel->x, value);
    fprintf(panel->to, "</text>\n");
}

static void tick_y(const struct gyre_report_panel *panel, double value)
{
    double y = gyre_report_scale_place(&panel->y, value);
    fprintf(panel->to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", GYRE_PAGE_LEFT, y,
            GYRE_PAGE_RIGHT);
    fprintf(panel->to, "<text class=\"faint\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">",
            GYRE_PAGE_LEFT - 8, y + 4);
    put_number(panel, &panel->y, value);
    fprintf(panel->to, "%s</text>\n", panel->percent ? " %" : "");
}

void gyre_report_panel_begin(const struct gyre_report_panel *panel, const char *name)
{
    double tick[GYRE_REPORT_TICKS];
    fprintf(panel->to, "<text x=\"%d\" y=\"%.0f\">%s</text>\n", GYRE_PAGE_LEFT, panel->y.to - 10,
            name);
    for (int i = 0, ticks = gyre_report_scale_ticks(&panel->y, tick); i < ticks; i++)
        tick_y(panel, tick[i]);
}

/* -- curves ------------------------------------------------------------------------------------ */

double gyre_report_panel_x(const struct gyre_report_panel *panel, const struct gyre_report_bin *bin)
{
    return gyre_report_scale_place(&panel->x, bin->x / panel->unit);
}

double gyre_report_panel_y(const struct gyre_report_panel *panel, double value)
{
    return gyre_report_scale_place(&panel->y, panel->percent ? value * 100 : value);
}

void gyre_report_panel_line(const struct gyre_report_panel *panel,
                            const struct gyre_report_series *series, const char *class)
{
    if (series->bins == 0)
        return;
    fprintf(panel->to, "<path class=\"line %s\" d=\"", class);
    for (uint32_t i = 0; i < series->bins; i++)
        fprintf(panel->to, "%c%.1f %.1f", i ? 'L' : 'M',
                gyre_report_panel_x(panel, &series->bin[i]),
                gyre_report_panel_y(panel, series->bin[i].y));
    fprintf(panel->to, "\"/>\n");
}

void gyre_report_panel_marks(const struct gyre_report_panel *panel,
                             const struct gyre_report_series *series, bool test)
{
    for (uint32_t i = 0; series->bins <= MOST_MARKS && i < series->bins; i++) {
        double x = gyre_report_panel_x(panel, &series->bin[i]),
               y = gyre_report_panel_y(panel, series->bin[i].y);
        if (test)
            fprintf(panel->to,
                    "<rect class=\"in-test\" x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\"/>\n",
                    x - 3, y - 3);
        else
            fprintf(panel->to, "<circle class=\"in-train\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"/>\n",
                    x, y);
    }
}

static void put_end(const struct gyre_report_panel *panel, double y, const char *class,
                    const char *word, double value)
{
    struct gyre_report_text text = {0};
    if (panel->percent)
        gyre_report_add(&text, "%.2f %%", value * 100);
    else
        gyre_report_add_real(&text, value);
    fprintf(panel->to, "<text class=\"%s\" x=\"%d\" y=\"%.1f\">%s %s</text>\n", class,
            GYRE_PAGE_RIGHT + 10, y + 4, word, text.bytes);
}

/* Writes the last values beside the ends of the curves, never on each other. */
void gyre_report_panel_ends(const struct gyre_report_panel *panel,
                            const struct gyre_report_series *train,
                            const struct gyre_report_series *test, const char *const word[2])
{
    double last = train->bins ? train->bin[train->bins - 1].y : 0;
    double tested = test->bins ? test->bin[test->bins - 1].y : 0;
    double y = gyre_report_panel_y(panel, last), test_y = gyre_report_panel_y(panel, tested);
    if (train->bins && test->bins && fabs(y - test_y) < LABEL_LEADING) {
        double middle = (y + test_y) / 2, half = y < test_y ? 0.5 : -0.5;
        y = middle - half * LABEL_LEADING;
        test_y = middle + half * LABEL_LEADING;
    }
    if (train->bins)
        put_end(panel, y, "in-train", word[0], last);
    if (test->bins)
        put_end(panel, test_y, "in-test", word[1], tested);
}
