/* nccl-tests' table on standard output, and the same rows as JSON and as comma-separated values. */
#ifndef GYRE_BENCH_HARNESS_REPORT_H
#define GYRE_BENCH_HARNESS_REPORT_H

#include "harness/json.h"
#include "harness/machine.h"
#include "harness/options.h"

struct bench_calls { /* of one direction, one time per call, in microseconds */
    int count;
    double min, max, mean, p50, p95, p99, deviation;
    double *times;   /* count: the slowest rank's */
    double *by_rank; /* n × count, or NULL */
    int n;
};

struct bench_timing { /* one direction of one row */
    bool measured;    /* false: the operation has no such direction */
    double time_us;
    double processor_us;      /* of all ranks, per call */
    double alg_bw, bus_bw;    /* GB/s, 10⁹ */
    int64_t wrong;            /* negative: not checked */
    struct bench_calls calls; /* with -I; with --csv its percentiles */
};

struct bench_row {
    uint64_t bytes, count;
    const char *type, *op;
    int root;
    int iterations;
    struct bench_timing out_of_place, in_place;
};

struct bench_report {
    bool speaks; /* rank 0 alone */
    const char *program;
    bool per_iteration;
    struct bench_json json;
    FILE *csv;
    double bus_sum; /* over rows and directions */
    int timings;
    int out_of_bounds;
};

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
