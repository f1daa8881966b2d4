/* A row of a report, and where reports go. */
#ifndef GYRE_BENCH_OUTPUT_ROW_H
#define GYRE_BENCH_OUTPUT_ROW_H

#include "output/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

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

#endif
