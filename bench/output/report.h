/* nccl-tests' table on standard output, and the same rows as JSON and as comma-separated values. */
#ifndef GYRE_BENCH_OUTPUT_REPORT_H
#define GYRE_BENCH_OUTPUT_REPORT_H

#include "output/machine.h"
#include "output/row.h"
#include "harness/options.h"

/* False with a message when a file cannot be opened. */
bool bench_report_open(struct bench_report *report, const struct bench_options *options, int argc,
                       char **argv);
void bench_report_settings(struct bench_report *report, const struct bench_options *options);
void bench_report_places(struct bench_report *report, const struct bench_place *places, int n);
void bench_report_remark(struct bench_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void bench_report_columns(struct bench_report *report);
void bench_report_row(struct bench_report *report, const struct bench_row *row);

#define BENCH_NOISE      0.05 /* of a ceiling, by which a row may pass it */
#define BENCH_IMPOSSIBLE 1.5 /* times the ceiling: no change of the machine's speed explains that */

/* The share of a ceiling that was reached, in percent. False if so much is impossible. */
bool bench_report_share(struct bench_report *report, const char *direction, double percent);

/* The footer. `error`: what ended the run, NULL if nothing. True if all is well. */
bool bench_report_close(struct bench_report *report, const char *error);

/* `value` in `width` columns: with two decimals if they fit, one, none, or an exponent. */
void bench_report_number(double value, int width, char text[16]);

/* `times` stays in its order and is pointed to by the result. `scratch` holds count. */
void bench_calls_measure(struct bench_calls *calls, double *times, int count, double *scratch);

#endif
