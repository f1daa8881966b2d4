/* Draws a training's scaling as one SVG: the speed-up above, beside the ideal; below what became of
 * the time, efficiency and exposed communication.
 *
 * Both axes above are logarithmic where the most ranks are over 16 times the least, so that the
 * ideal is a straight line in any case. Tested by tests/unit/report/scaling_test.c. */
#include "report/scaling.h"

#include "report/inside.h"

#include <math.h>

enum { SPEED_BOTTOM = 364, SHARE_TOP = 414, SHARE_BOTTOM = 574, HEIGHT = 626 };

static const double LINEAR_MOST = 16; /* the most ranks by the least on a linear axis */
static const double TICK_APART = 26;  /* pixels between the names of two ticks */

struct curves {
    struct gyre_report_series speed_up, ideal, efficiency, exposed;
};

static void fill_curves(struct curves *curves, const struct gyre_scaling *scaling)
{
    for (int i = 0; i < scaling->runs; i++) {
        double ranks = scaling->run[i].ranks;
        gyre_report_series_add(&curves->speed_up, ranks, gyre_scaling_speed_up(scaling, i));
        gyre_report_series_add(&curves->ideal, ranks, ranks / scaling->run[0].ranks);
        gyre_report_series_add(&curves->efficiency, ranks, gyre_scaling_efficiency(scaling, i));
        gyre_report_series_add(&curves->exposed, ranks, gyre_scaling_exposed(&scaling->run[i]));
    }
}

static double greatest(const struct gyre_report_series *series)
{
    double most = 0;
    for (uint32_t i = 0; i < series->bins; i++)
        most = fmax(most, series->bin[i].y);
    return most;
}

static double least(const struct gyre_report_series *series)
{
    double low = INFINITY;
    for (uint32_t i = 0; i < series->bins; i++)
        low = fmin(low, series->bin[i].y);
    return low;
}

/* -- axes -------------------------------------------------------------------------------------- */

/* From the fewest ranks to the most; of one number of ranks alone, around it. */
static struct gyre_report_scale rank_scale(const struct gyre_scaling *scaling, bool log)
{
    double low = scaling->run[0].ranks, high = scaling->run[scaling->runs - 1].ranks;
    return (struct gyre_report_scale){.log = log,
                                      .low = high > low ? low : low - 1,
                                      .high = high > low ? high : high + 1,
                                      .step = 1,
                                      .from = GYRE_PAGE_LEFT + 12,
                                      .to = GYRE_PAGE_RIGHT - 12};
}

/* A tick at each number of ranks, but none so near to the one before that their names meet. */
static void put_ticks(const struct gyre_report_panel *panel, const struct gyre_scaling *scaling)
{
    double last = -INFINITY;
    for (int i = 0; i < scaling->runs; i++) {
        double ranks = scaling->run[i].ranks, x = gyre_report_scale_place(&panel->x, ranks);
        if (x - last < TICK_APART)
            continue;
        gyre_report_panel_tick(panel, ranks);
        last = x;
    }
}

/* -- panels ------------------------------------------------------------------------------------ */

static void put_speed_up(struct gyre_report_panel *panel, const struct gyre_scaling *scaling,
                         const struct curves *curves)
{
    static const char *const words[2] = {"speed-up", ""};
    static const struct gyre_report_series none;
    double low = fmin(1, least(&curves->speed_up));
    double high = fmax(greatest(&curves->ideal), greatest(&curves->speed_up));
    panel->y = panel->x.log && low > 0 ? gyre_report_scale_logarithmic(low, high)
                                       : gyre_report_scale_linear(0, high, 6);
    panel->y.from = SPEED_BOTTOM;
    panel->y.to = GYRE_PAGE_TOP;
    panel->percent = false;
    gyre_report_panel_begin(panel, panel->x.log ? "speed-up, logarithmic" : "speed-up");
    put_ticks(panel, scaling);
    gyre_report_panel_line(panel, &curves->ideal, "ideal");
    gyre_report_panel_line(panel, &curves->speed_up, "train");
    gyre_report_panel_marks(panel, &curves->speed_up, false);
    gyre_report_panel_ends(panel, &curves->speed_up, &none, words);
}

static void put_time_shares(struct gyre_report_panel *panel, const struct gyre_scaling *scaling,
                            const struct curves *curves)
{
    static const char *const words[2] = {"efficiency", "exposed"};
    panel->y = gyre_report_scale_linear(0, 100 * fmax(1, greatest(&curves->efficiency)), 4);
    panel->y.from = SHARE_BOTTOM;
    panel->y.to = SHARE_TOP;
    panel->percent = true;
    gyre_report_panel_begin(panel, "efficiency, and communication that was waited for");
    put_ticks(panel, scaling);
    gyre_report_panel_line(panel, &curves->efficiency, "train");
    gyre_report_panel_line(panel, &curves->exposed, "test");
    gyre_report_panel_marks(panel, &curves->efficiency, false);
    gyre_report_panel_marks(panel, &curves->exposed, true);
    gyre_report_panel_ends(panel, &curves->efficiency, &curves->exposed, words);
}

static void put_scaling_keys(FILE *to)
{
    gyre_report_page_key(to, GYRE_PAGE_RIGHT - 262, "ideal", "ideal");
    gyre_report_page_key(to, GYRE_PAGE_RIGHT - 188, "train", "measured");
    gyre_report_page_key(to, GYRE_PAGE_RIGHT - 88, "test", "exposed");
}

void gyre_scaling_put_svg(FILE *to, const struct gyre_scaling *scaling)
{
    static struct curves curves;
    struct gyre_report_panel panel = {.to = to, .unit = 1};
    struct gyre_report_text about = {0};
    bool log = scaling->run[scaling->runs - 1].ranks > LINEAR_MOST * scaling->run[0].ranks;
    gyre_report_add(&about, "%s%s", scaling->rule, scaling->loaded ? "; under load" : "");
    curves = (struct curves){0};
    fill_curves(&curves, scaling);
    panel.x = rank_scale(scaling, log);
    gyre_report_page_begin(to, scaling->title, about.bytes, HEIGHT);
    put_scaling_keys(to);
    put_speed_up(&panel, scaling, &curves);
    put_time_shares(&panel, scaling, &curves);
    fprintf(to,
            "<text class=\"faint\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">ranks%s</text>\n"
            "</svg>\n",
            (GYRE_PAGE_LEFT + GYRE_PAGE_RIGHT) / 2, SHARE_BOTTOM + 38, log ? ", logarithmic" : "");
}
