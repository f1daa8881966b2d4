/* The JSON side of a report; report.c calls these in this order. */
#ifndef GYRE_BENCH_OUTPUT_REPORT_JSON_H
#define GYRE_BENCH_OUTPUT_REPORT_JSON_H

#include "harness/options.h"
#include "output/machine.h"
#include "output/row.h"

void bench_json_opening(struct bench_json *json, int argc, char **argv);
void bench_json_config(struct bench_json *json, const struct bench_options *options);
void bench_json_place(struct bench_json *json, const struct bench_place *place, int rank);
void bench_json_row(struct bench_report *report, const struct bench_row *row);

/* `verdict` on the bandwidth: "OK", "FAILED" or "". `error`: NULL if none. */
void bench_json_closing(struct bench_report *report, double average, const char *verdict,
                        const char *error);

#endif
