/* The output that existing parsers of nccl-tests read: its lines, widths and words. The first line
 * alone differs: it names Gyre's version. Parsers pass over this line, which older versions of
 * nccl-tests lack.
 *
 *     # Gyre version … in the format of … ┐
 *     # nThread 1 nGpus 1 minBytes …      │ settings, places, remarks: lines with '#'
 *     #  Rank  0 Group  0 Pid …           ┘
 *     #       size         count …          columns
 *             1024           256 …          one row per size, type, operation and root: 13 words
 *     # Out of bounds values : 0 OK       ┐ footer
 *     # Avg bus bandwidth    : 0.255      ┘
 *
 * Widths and words are those of 2.19.6; what only Gyre has stands in further lines with '#', or in
 * further columns that -I asks for. JSON has the layout of their version 3. */
#include "output/report.h"

#include "output/report_json.h"

#include <errno.h>
#include <gyre/gyre.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_VERSION "2.19.6"

/* -- numbers ----------------------------------------------------------------------------------- */

void bench_report_number(double value, int width, char text[16])
{
    int digits = 0;
    for (double power = 1; value >= power && digits < 20; power *= 10) {
        digits++;
    }
    if (digits > width) {
        snprintf(text, 16, "%*.*e", width, width >= 7 ? 1 : 0, value);
    } else {
        int decimals = digits < width - 2 ? 2 : digits < width - 1 ? 1 : 0;
        snprintf(text, 16, "%*.*f", width, decimals, value);
    }
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double percentile(const double *sorted, int count, int percent)
{
    int index = (count * percent + 99) / 100 - 1;
    return sorted[index < count ? index : count - 1];
}

void bench_calls_measure(struct bench_calls *calls, double *times, int count, double *scratch)
{
    double sum = 0, squares = 0;
    memcpy(scratch, times, (size_t)count * sizeof *times);
    qsort(scratch, (size_t)count, sizeof *scratch, ascending);
    for (int i = 0; i < count; i++) {
        sum += times[i];
    }
    double mean = sum / count;
    for (int i = 0; i < count; i++) {
        squares += (times[i] - mean) * (times[i] - mean);
    }
    *calls = (struct bench_calls){.count = count,
                                  .min = scratch[0],
                                  .max = scratch[count - 1],
                                  .mean = mean,
                                  .p50 = scratch[count / 2],
                                  .p95 = percentile(scratch, count, 95),
                                  .p99 = percentile(scratch, count, 99),
                                  .deviation = sqrt(squares / count),
                                  .times = times};
}

/* -- opening ----------------------------------------------------------------------------------- */

/* FILE, or FILE.0, FILE.1, … if that is taken: results are never overwritten. */
static FILE *open_new(const char *path, char *taken, size_t room)
{
    snprintf(taken, room, "%s", path);
    FILE *file = fopen(taken, "wxe");
    for (int i = 0; !file && errno == EEXIST && i < 10000; i++) {
        snprintf(taken, room, "%s.%d", path, i);
        file = fopen(taken, "wxe");
    }
    return file;
}

static bool open_files(struct bench_report *report, const struct bench_options *options, int argc,
                       char **argv)
{
    char taken[4096];
    if (options->json) {
        report->json.file = open_new(options->json, taken, sizeof taken);
        if (!report->json.file) {
            fprintf(stderr, "-J %s: cannot write there: %s\n", taken, strerror(errno));
            return false;
        }
        printf("# Writing JSON output to %s\n", taken);
        bench_json_opening(&report->json, argc, argv);
    }
    report->csv = options->csv ? fopen(options->csv, "we") : NULL;
    if (options->csv && !report->csv) {
        fprintf(stderr, "--csv %s: cannot write there: %s\n", options->csv, strerror(errno));
        return false;
    }
    if (report->csv) {
        fputs("size,count,type,redop,root,iterations,time_us,algbw,busbw,wrong,in_place_time_us,"
              "in_place_algbw,in_place_busbw,in_place_wrong,p50_us,p99_us,processor_us,"
              "in_place_p50_us,in_place_p99_us,in_place_processor_us\n",
              report->csv);
    }
    return true;
}

bool bench_report_open(struct bench_report *report, const struct bench_options *options, int argc,
                       char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    report->program = slash ? slash + 1 : argv[0];
    report->per_iteration = options->per_iteration;
    return !report->speaks || open_files(report, options, argc, argv);
}

/* -- before the table -------------------------------------------------------------------------- */

void bench_report_settings(struct bench_report *report, const struct bench_options *options)
{
    if (!report->speaks) {
        return;
    }
    printf("# Gyre version %d.%d.%d in the format of nccl-tests " FORMAT_VERSION "\n",
           GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR, GYRE_VERSION_PATCH);
    printf("# Collective test starting: %s\n", report->program);
    printf("# nThread 1 nGpus %d minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
           "(%s) warmup iters: %d iters: %d agg iters: 1 validation: %d graph: 0 unalign: 0\n",
           options->in_process ? options->in_process : 1, options->min_bytes, options->max_bytes,
           options->factor ? options->factor : options->step_bytes,
           options->factor ? "factor" : "bytes", options->warmups,
           options->iterations ? options->iterations : 20, options->checks);
    if (options->per_iteration) {
        printf("# Per-Iteration Report: wall clock; i_* uses max over process rows \n");
    }
    printf("#\n");
    bench_json_config(&report->json, options);
}

void bench_report_places(struct bench_report *report, const struct bench_place *places, int n)
{
    if (!report->speaks) {
        return;
    }
    printf("# Using devices\n");
    bench_json_open(&report->json, "devices", '[');
    for (int rank = 0; rank < n; rank++) {
        const struct bench_place *place = &places[rank];
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", rank, 0,
               place->pid, place->host, place->device, 0, 0, 0, place->chip);
        bench_json_place(&report->json, place, rank);
    }
    bench_json_close(&report->json);
    bench_json_close(&report->json);
}

void bench_report_remark(struct bench_report *report, const char *format, ...)
{
    if (report->speaks) {
        va_list arguments;
        va_start(arguments, format);
        printf("# ");
        vprintf(format, arguments);
        printf("\n");
        va_end(arguments);
        fflush(stdout);
    }
}

/* -- the table --------------------------------------------------------------------------------- */

static void print_half_names(bool per_iteration)
{
    printf("  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
    if (per_iteration) {
        printf("  %7s  %7s  %7s  %7s", "i_min", "i_max", "i_p99", "i_cv%");
    }
}

static void print_half_units(bool per_iteration)
{
    printf("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    if (per_iteration) {
        printf("  %7s  %7s  %7s  %7s", "(us)", "(us)", "(us)", "(%)");
    }
}

void bench_report_columns(struct bench_report *report)
{
    if (!report->speaks) {
        return;
    }
    bool wide = report->per_iteration;
    printf("#\n# %10s  %12s  %8s  %6s  %6s", "", "", "", "", "");
    printf("%s\n", wide ? "              out-of-place (+ per-iteration)                           "
                          "     in-place (+ per-iteration)"
                        : "           out-of-place                       in-place          ");
    printf("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    print_half_names(wide);
    print_half_names(wide);
    printf(" \n# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
    print_half_units(wide);
    print_half_units(wide);
    printf(" \n");
    fflush(stdout);
    bench_json_open(&report->json, "results", '[');
}

static void print_timing(const struct bench_timing *timing, bool per_iteration)
{
    char time[16], alg[16], bus[16], min[16], max[16], p99[16], variation[16];
    const struct bench_calls *calls = &timing->calls;
    bench_report_number(timing->time_us, 7, time);
    bench_report_number(timing->alg_bw, 6, alg);
    bench_report_number(timing->bus_bw, 6, bus);
    printf("  %7s  %6s  %6s", time, alg, bus);
    if (timing->wrong < 0) {
        printf("    N/A");
    } else {
        printf("  %6g", (double)timing->wrong);
    }
    if (per_iteration) {
        bench_report_number(calls->min, 7, min);
        bench_report_number(calls->max, 7, max);
        bench_report_number(calls->p99, 7, p99);
        bench_report_number(calls->mean > 0 ? 100 * calls->deviation / calls->mean : 0, 7,
                            variation);
        printf("  %7s  %7s  %7s  %7s", min, max, p99, variation);
    }
}

static void write_csv(FILE *csv, const struct bench_row *row)
{
    const struct bench_timing *out = &row->out_of_place, *in = &row->in_place;
    fprintf(csv,
            "%" PRIu64 ",%" PRIu64 ",%s,%s,%d,%d,%.3f,%.4f,%.4f,%" PRId64 ",%.3f,%.4f,%.4f,%" PRId64
            ",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n",
            row->bytes, row->count, row->type, row->op, row->root, row->iterations, out->time_us,
            out->alg_bw, out->bus_bw, out->wrong, in->time_us, in->alg_bw, in->bus_bw, in->wrong,
            out->calls.p50, out->calls.p99, out->processor_us, in->calls.p50, in->calls.p99,
            in->processor_us);
    fflush(csv);
}

void bench_report_row(struct bench_report *report, const struct bench_row *row)
{
    report->bus_sum += row->out_of_place.bus_bw + row->in_place.bus_bw;
    report->timings += 1 + row->in_place.measured;
    if (!report->speaks) {
        return;
    }
    printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6i", row->bytes, row->count, row->type,
           row->op, row->root);
    print_timing(&row->out_of_place, report->per_iteration);
    print_timing(&row->in_place, report->per_iteration);
    printf("\n");
    fflush(stdout);
    bench_json_row(report, row);
    if (report->csv) {
        write_csv(report->csv, row);
    }
}

/* -- behind the table -------------------------------------------------------------------------- */

bool bench_report_share(struct bench_report *report, const char *direction, double percent)
{
    bool possible = percent <= 100 * BENCH_IMPOSSIBLE;
    bench_report_remark(report, "Share %-14s : %.1f %% of the ceiling%s", direction, percent,
                        !possible ? " FAILED: no machine does more than it can"
                        : percent > 100 * (1 + BENCH_NOISE)
                            ? ": WARNING, the machine has changed its speed; run again"
                        : percent > 100 ? ", all of it within the noise"
                                        : "");
    return possible;
}

bool bench_report_close(struct bench_report *report, const char *error)
{
    const char *least = getenv("NCCL_TESTS_MIN_BW"), *verdict = "";
    double average = report->timings ? report->bus_sum / report->timings : 0;
    if (least && least[0]) {
        verdict = average < 0.9 * atof(least) ? "FAILED" : "OK";
    }
    if (report->speaks) {
        printf("# %-20s : %d %s\n", "Out of bounds values", report->out_of_bounds,
               report->out_of_bounds ? "FAILED" : "OK");
        printf("# %-20s : %g %s\n", "Avg bus bandwidth", average, verdict);
        printf("#\n# Collective test concluded: %s\n#\n", report->program);
        printf("%s%s\n", error ? "# error: " : "", error ? error : "");
        bench_json_closing(report, average, verdict, error);
    }
    if (report->json.file) {
        fclose(report->json.file);
    }
    if (report->csv) {
        fclose(report->csv);
    }
    fflush(stdout);
    return !error && report->out_of_bounds == 0 && strcmp(verdict, "FAILED") != 0;
}
