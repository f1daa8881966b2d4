/* The report as JSON, in the layout of nccl-tests' version 3:
 *
 *     { version, start_time, args, env, nccl_version, config { …, devices [ … ] },
 *       results [ { size, …, out_of_place { … }, in_place { … }, … }, … ],
 *       out_of_bounds { … }, average_bus_bandwidth { … }, errors [ … ], end_time }
 *
 * It is written as the run goes on. bench_json_config() leaves `config` open for the devices and
 * the table leaves `results` open for its rows; the closing closes whatever is open.
 *
 * `env` holds variables that can explain a time and no others: results are published, and an
 * environment holds secrets. Tested by tests/unit/bench/harness_test.c. */
#include "output/report_json.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void write_time(struct bench_json *json, const char *key)
{
    char text[32];
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    bench_json_text(json, key, text);
}

static bool begins_with(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(text, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Groups of variables by how they begin; single ones with their '='. */
static bool explains_times(const char *variable)
{
    static const char *const told[] = {
        "GYRE_",
        "OMP_",
        "OPENBLAS_",
        "MKL_NUM_THREADS=",
        "BLIS_NUM_THREADS=",
        "CUDA_VISIBLE_DEVICES=",
        "RANK=",
        "WORLD_SIZE=",
        "LOCAL_RANK=",
        "LOCAL_WORLD_SIZE=",
        "NODE_RANK=",
        "SLURM_JOB_ID=",
        "SLURM_JOB_NUM_NODES=",
        "SLURM_JOB_CPUS_PER_NODE=",
        "SLURM_NTASKS=",
        "SLURM_STEP_NUM_TASKS=",
        "SLURM_CPUS_PER_TASK=",
        "SLURM_CPUS_ON_NODE=",
    };
    static const char *const secret[] = {"GYRE_KEY"};
    return begins_with(variable, told, sizeof told / sizeof *told) &&
           !begins_with(variable, secret, 1);
}

void bench_json_opening(struct bench_json *json, int argc, char **argv)
{
    bench_json_open(json, NULL, '{');
    bench_json_int(json, "version", 3);
    write_time(json, "start_time");
    bench_json_open(json, "args", '[');
    for (int i = 0; i < argc; i++) {
        bench_json_text(json, NULL, argv[i]);
    }
    bench_json_close(json);
    bench_json_open(json, "env", '[');
    for (char **variable = environ; *variable; variable++) {
        if (explains_times(*variable)) {
            bench_json_text(json, NULL, *variable);
        }
    }
    bench_json_close(json);
    bench_json_int(json, "nccl_version", 0);
    bench_json_int(json, "gyre_version", gyre_version());
}

void bench_json_config(struct bench_json *json, const struct bench_options *options)
{
    bool factor = options->factor > 0;
    bench_json_open(json, "config", '{');
    bench_json_int(json, "nthreads", 1);
    bench_json_int(json, "ngpus", 1);
    bench_json_int(json, "minimum_bytes", (int64_t)options->min_bytes);
    bench_json_int(json, "maximum_bytes", (int64_t)options->max_bytes);
    bench_json_int(json, factor ? "step_factor" : "step_bytes",
                   (int64_t)(factor ? options->factor : options->step_bytes));
    bench_json_int(json, "warmup_iters", options->warmups);
    bench_json_int(json, "iterations", options->iterations ? options->iterations : 20);
    bench_json_int(json, "aggregated_iterations", 1);
    bench_json_int(json, "validation", options->checks);
    bench_json_int(json, "graph", 0);
    bench_json_bool(json, "blocking_collectives", false);
    bench_json_bool(json, "per_iter_timing", options->per_iteration);
    bench_json_int(json, "per_iter_skip", 0);
    bench_json_bool(json, "parallel_init", false);
}

void bench_json_place(struct bench_json *json, const struct bench_place *place, int rank)
{
    bench_json_open(json, NULL, '{');
    bench_json_int(json, "rank", rank);
    bench_json_int(json, "group", 0);
    bench_json_int(json, "pid", place->pid);
    bench_json_text(json, "hostname", place->host);
    bench_json_int(json, "device", place->device);
    bench_json_text(json, "device_hex", "0000:00:00");
    bench_json_text(json, "device_info", place->chip);
    bench_json_close(json);
}

static void write_calls(struct bench_json *json, const char *key, const struct bench_calls *calls)
{
    bench_json_open(json, key, '{');
    bench_json_int(json, "skipped_iterations", 0);
    bench_json_double(json, "min_us", calls->min);
    bench_json_double(json, "max_us", calls->max);
    bench_json_double(json, "avg_us", calls->mean);
    bench_json_double(json, "p50_us", calls->p50);
    bench_json_double(json, "p95_us", calls->p95);
    bench_json_double(json, "p99_us", calls->p99);
    bench_json_double(json, "stdev_us", calls->deviation);
    bench_json_double(json, "cv_pct", calls->mean > 0 ? 100 * calls->deviation / calls->mean : 0);
    bench_json_open(json, "times_us", '[');
    for (int i = 0; i < calls->count; i++) {
        bench_json_double(json, NULL, calls->times[i]);
    }
    bench_json_close(json);
    if (calls->by_rank && calls->n > 1) {
        bench_json_open(json, "per_process_max_times_us", '[');
        for (int rank = 0; rank < calls->n; rank++) {
            bench_json_open(json, NULL, '[');
            for (int i = 0; i < calls->count; i++) {
                bench_json_double(json, NULL, calls->by_rank[rank * calls->count + i]);
            }
            bench_json_close(json);
        }
        bench_json_close(json);
    }
    bench_json_close(json);
}

static void write_timing(struct bench_json *json, const char *key, const char *calls_key,
                         const struct bench_timing *timing, bool per_iteration)
{
    bench_json_open(json, key, '{');
    bench_json_double(json, "time", timing->time_us);
    bench_json_double(json, "alg_bw", timing->alg_bw);
    bench_json_double(json, "bus_bw", timing->bus_bw);
    if (timing->wrong < 0) {
        bench_json_text(json, "nwrong", NULL);
    } else {
        bench_json_double(json, "nwrong", (double)timing->wrong);
    }
    bench_json_close(json);
    if (per_iteration) {
        write_calls(json, calls_key, &timing->calls);
    }
}

void bench_json_row(struct bench_report *report, const struct bench_row *row)
{
    char root[16];
    struct bench_json *json = &report->json;
    snprintf(root, sizeof root, "%6i", row->root);
    bench_json_open(json, NULL, '{');
    bench_json_int(json, "size", (int64_t)row->bytes);
    bench_json_int(json, "count", (int64_t)row->count);
    bench_json_text(json, "type", row->type);
    bench_json_text(json, "redop", row->op);
    bench_json_text(json, "root", root);
    write_timing(json, "out_of_place", "out_of_place_per_iter", &row->out_of_place,
                 report->per_iteration);
    write_timing(json, "in_place", "in_place_per_iter", &row->in_place, report->per_iteration);
    bench_json_int(json, "actual_iterations", row->iterations);
    bench_json_text(json, "experiment_name", report->program);
    bench_json_close(json);
}

void bench_json_closing(struct bench_report *report, double average, const char *verdict,
                        const char *error)
{
    struct bench_json *json = &report->json;
    while (json->depth > 1) { /* the results, or what an error cut short */
        bench_json_close(json);
    }
    bench_json_open(json, "out_of_bounds", '{');
    bench_json_int(json, "count", report->out_of_bounds);
    bench_json_bool(json, "okay", report->out_of_bounds == 0);
    bench_json_close(json);
    bench_json_open(json, "average_bus_bandwidth", '{');
    bench_json_double(json, "bandwidth", average);
    bench_json_text(json, "okay",
                    verdict[0] == '\0'  ? "unchecked"
                    : verdict[0] == 'O' ? "true"
                                        : "false");
    bench_json_close(json);
    bench_json_open(json, "errors", '[');
    if (error) {
        bench_json_text(json, NULL, error);
    }
    bench_json_close(json);
    write_time(json, "end_time");
    bench_json_close(json);
}
