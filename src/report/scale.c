/* Scales whose ends and ticks are 1, 2 or 5 times a power of ten, or sums of such steps.
 *
 *     linear        0 ── 0.5 ── 1 ── 1.5 ── 2 ── 2.5
 *     logarithmic   0.02 ── 0.05 ── 0.1 ── 0.2 ── 0.5 ── 1     up to three decades
 *                   1e-6 ──── 1e-4 ──── 0.01 ──── 1            beyond: whole decades only
 *
 * Tested by tests/unit/report/chart_test.c. */
#include "report/scale.h"

#include <math.h>

/* The next number of 1, 2 and 5 × 10^k. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value))), first = value / power;
    return power * (first <= 1.0001 ? 1 : first <= 2.0001 ? 2 : first <= 5.0001 ? 5 : 10);
}

struct gyre_report_scale gyre_report_scale_linear(double low, double high, int intervals)
{
    if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high)))) {
        double room = fmax(fabs(low) * 0.1, 1e-3);
        low -= room;
        high += room;
    }
    double step = round_up((high - low) / intervals);
    return (struct gyre_report_scale){.low = floor(low / step + 1e-6) * step,
                                      .high = ceil(high / step - 1e-6) * step,
                                      .step = step};
}

struct gyre_report_scale gyre_report_scale_logarithmic(double low, double high)
{
    double decades = log10(high / low);
    if (decades <= 3) {
        double below = 10 / round_up(10 / low); /* 1 2 5 read backwards */
        return (struct gyre_report_scale){.log = true, .low = below, .high = round_up(high)};
    }
    return (struct gyre_report_scale){.log = true,
                                      .low = pow(10, floor(log10(low))),
                                      .high = pow(10, ceil(log10(high))),
                                      .step = ceil(decades / 6)};
}

double gyre_report_scale_place(const struct gyre_report_scale *scale, double value)
{
    double share = (value - scale->low) / (scale->high - scale->low);
    if (scale->log)
        share = value > 0 ? log(value / scale->low) / log(scale->high / scale->low) : 0;
    return scale->from + (scale->to - scale->from) * fmax(0, fmin(1, share));
}

/* -- ticks ------------------------------------------------------------------------------------- */

static int linear_ticks(const struct gyre_report_scale *scale, double tick[GYRE_REPORT_TICKS])
{
    double begin = ceil(scale->low / scale->step - 1e-6);
    int ticks = 0;
    for (; ticks < GYRE_REPORT_TICKS; ticks++) {
        tick[ticks] = (begin + ticks) * scale->step;
        if (tick[ticks] > scale->high + scale->step * 1e-6)
            break;
    }
    return ticks;
}

static int logarithmic_ticks(const struct gyre_report_scale *scale, double tick[GYRE_REPORT_TICKS])
{
    static const int first[] = {1, 2, 5};
    int each = scale->step > 0 ? 1 : 3, stride = scale->step > 0 ? (int)scale->step : 1, ticks = 0;
    int last = (int)ceil(log10(scale->high) + 1e-6);
    for (int k = (int)floor(log10(scale->low) + 1e-6); k <= last; k += stride)
        for (int i = 0; i < each && ticks < GYRE_REPORT_TICKS; i++) {
            double value = first[i] * pow(10, k);
            if (value >= scale->low * 0.999 && value <= scale->high * 1.001)
                tick[ticks++] = value;
        }
    return ticks;
}

int gyre_report_scale_ticks(const struct gyre_report_scale *scale, double tick[GYRE_REPORT_TICKS])
{
    return scale->log ? logarithmic_ticks(scale, tick) : linear_ticks(scale, tick);
}
