/* Axes: the pixel of a value, and the round numbers that have ticks. */
#ifndef GYRE_REPORT_SCALE_H
#define GYRE_REPORT_SCALE_H

#include <stdbool.h>

enum { GYRE_REPORT_TICKS = 32 };

struct gyre_report_scale {
    bool log;
    double low, high;
    double step;     /* between ticks; of a logarithmic scale in decades, 0: 1 2 5 10 */
    double from, to; /* pixels of low and high; set by the caller */
};

/* Makes a scale from a round number at or below `low` to one at or above `high`, in about
 * `intervals` steps. Equal values get room around them. */
struct gyre_report_scale gyre_report_scale_linear(double low, double high, int intervals);
/* Makes a logarithmic scale; 0 < low < high. */
struct gyre_report_scale gyre_report_scale_logarithmic(double low, double high);
/* The pixel of a value, never outside from … to. */
double gyre_report_scale_place(const struct gyre_report_scale *scale, double value);
/* Fills in the ticks in rising order and returns their number. */
int gyre_report_scale_ticks(const struct gyre_report_scale *scale, double tick[GYRE_REPORT_TICKS]);

#endif
