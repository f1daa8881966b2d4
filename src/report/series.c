/* Curves of any length in fixed memory.
 *
 *     width 1:  . . . . . . . .        800 bins are full:
 *     width 2:  ..  ..  ..  ..         neighbours become one, and bins hold twice as many points
 *
 * So a long series has 400 to 800 bins, all but the last of one width, for any number of points.
 * Tested by tests/unit/report/chart_test.c. */
#include "report/inside.h"

#include <math.h>

/* A value that a drawing can hold. */
static double tamed(double y)
{
    return fmax(-1e30, fmin(1e30, y));
}

static struct gyre_report_bin joined(struct gyre_report_bin a, struct gyre_report_bin b)
{
    uint64_t points = a.points + b.points;
    double share = (double)b.points / (double)points;
    return (struct gyre_report_bin){a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share,
                                    fmin(a.low, b.low), fmax(a.high, b.high), points};
}

static void halve(struct gyre_report_series *series)
{
    series->bins /= 2;
    series->width *= 2;
    for (uint32_t i = 0; i < series->bins; i++)
        series->bin[i] = joined(series->bin[2 * i], series->bin[2 * i + 1]);
}

void gyre_report_series_add(struct gyre_report_series *series, double x, double y)
{
    if (!isfinite(y)) {
        series->dropped++;
        return;
    }
    y = tamed(y);
    struct gyre_report_bin point = {x, y, y, y, 1};
    if (series->width == 0)
        series->width = 1;
    struct gyre_report_bin *last = &series->bin[series->bins ? series->bins - 1 : 0];
    if (series->bins > 0 && last->points < series->width) {
        *last = joined(*last, point);
        return;
    }
    if (series->bins == GYRE_REPORT_BINS)
        halve(series);
    series->bin[series->bins++] = point;
}
