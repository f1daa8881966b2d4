/* One row: time it, then check it, once out of place and once in place.
 *
 * Hot, as nccl-tests: the clock runs over all calls together, back to back on the same buffers.
 * Fresh: before each call every rank writes its whole input and reads its whole output, waits for
 * the others, and only the call itself is timed; so no cache holds what a real program would not
 * have there. After it all wait again: where ranks share cores one that is through would rewrite
 * its data on the core of one whose clock still runs. Per iteration (-I): as hot, with a clock
 * around each call.
 *
 * Without -n a row runs until it has 20 calls and 50 ms. How many calls that is rank 0 decides from
 * a pilot, and decides again if the pilot was slower than the row.
 *
 * A second clock counts the processor time of all of a process's threads; it runs while the first
 * does, so rewriting data costs nothing there either. */
#include "harness/measure.h"

#include "harness/data.h"
#include "harness/together.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PILOT_CALLS  4
#define LEAST_CALLS  20
#define MOST_CALLS   2000000
#define MOST_SAMPLES 2000 /* of calls one by one, for --csv */
#define LEAST_US     50e3
#define FRESH_ABOVE  4096 /* bytes */

struct spent { /* on this rank, in microseconds */
    double wall, processor;
};

/* -- time -------------------------------------------------------------------------------------- */

/* A broadcast's root may return before its leaves have the data: the time is over when all have. */
static void finish(struct bench *bench)
{
    if (bench->verb->rooted) {
        bench_together(bench);
    }
}

static bool is_fresh(const struct bench *bench, const struct bench_call *call)
{
    return bench->options.fresh && bench_call_bytes(bench, call) > FRESH_ABOVE;
}

static struct spent time_each(struct bench *bench, const struct bench_call *call, int calls,
                              double *times)
{
    struct spent total = {0, 0};
    bool fresh = is_fresh(bench, call);
    for (int i = 0; i < calls; i++) {
        if (fresh) {
            bench_call_refresh(bench, call, i);
            bench_together(bench);
        }
        double processor = bench_processor_us(), start = bench_now_us();
        bench_call_make(bench, call);
        finish(bench);
        double took = bench_now_us() - start;
        total.wall += took;
        total.processor += bench_processor_us() - processor;
        if (times) {
            times[i] = took;
        }
        if (fresh) {
            bench_together(bench);
        }
    }
    return total;
}

static struct spent time_all(struct bench *bench, const struct bench_call *call, int calls)
{
    double processor = bench_processor_us(), start = bench_now_us();
    for (int i = 0; i < calls; i++) {
        bench_call_make(bench, call);
    }
    finish(bench);
    double wall = bench_now_us() - start;
    return (struct spent){wall, bench_processor_us() - processor};
}

/* All calls, on this rank. `times` may be NULL. */
static struct spent time_calls(struct bench *bench, const struct bench_call *call, int calls,
                               double *times)
{
    bench_together(bench);
    return is_fresh(bench, call) || times ? time_each(bench, call, calls, times)
                                          : time_all(bench, call, calls);
}

static int calls_for(double total_us, int calls)
{
    double wanted = ceil(1.25 * LEAST_US / fmax(total_us / calls, 1e-3));
    return (int)fmin(fmax(wanted, LEAST_CALLS), MOST_CALLS);
}

static int pilot(struct bench *bench, const struct bench_call *call)
{
    if (call->iterations) {
        time_calls(bench, call, 1, NULL);
        return call->iterations;
    }
    time_calls(bench, call, 1, NULL);
    double total = time_calls(bench, call, PILOT_CALLS, NULL).wall;
    return (int)bench_from_root(bench, calls_for(total, PILOT_CALLS));
}

/* A number of calls that was too small for 50 ms is replaced, the row done again. With `times` each
 * call's own time is left there too, in memory of the caller. */
static struct spent time_row(struct bench *bench, const struct bench_call *call, int *calls,
                             double **times)
{
    for (;;) {
        if (times) {
            free(*times);
            *times = bench_memory(bench, (size_t)*calls * sizeof **times);
        }
        struct spent total = time_calls(bench, call, *calls, times ? *times : NULL);
        int wanted =
            total.wall < LEAST_US && *calls < MOST_CALLS ? calls_for(total.wall, *calls) : 0;
        wanted = call->iterations ? 0 : (int)bench_from_root(bench, wanted);
        if (wanted <= *calls) {
            return total;
        }
        *calls = wanted;
    }
}

static double combine_time(struct bench *bench, double mean_us)
{
    switch (bench->options.average) {
    case 0:
        return bench_from_root(bench, mean_us);
    case 1:
        return bench_agree(bench, mean_us, GYRE_AVG);
    case 2:
        return bench_agree(bench, mean_us, GYRE_MIN);
    default:
        return bench_agree(bench, mean_us, GYRE_MAX);
    }
}

/* -- call by call ------------------------------------------------------------------------------ */

static double *gather_by_rank(struct bench *bench, const double *times, int count)
{
    size_t cells = (size_t)bench->n * (size_t)count;
    double *by_rank = bench_memory(bench, cells * sizeof *by_rank);
    memcpy(by_rank + (size_t)bench->rank * (size_t)count, times, (size_t)count * sizeof *times);
    bench_sum(bench, by_rank, cells, GYRE_F64);
    return by_rank;
}

/* Of the slowest rank, call by call. The row owns `times` until it is printed. */
static void sum_up_calls(struct bench *bench, double *times, int count, struct bench_calls *calls)
{
    double *by_rank = bench->options.per_iteration ? gather_by_rank(bench, times, count) : NULL;
    bench_must(bench,
               gyre_all_reduce(bench->comm, times, times, (uint64_t)count, GYRE_F64, GYRE_MAX),
               "finding the slowest rank");
    double *scratch = bench_memory(bench, (size_t)count * sizeof *scratch);
    bench_calls_measure(calls, times, count, scratch);
    free(scratch);
    calls->by_rank = by_rank;
    calls->n = bench->n;
}

/* --csv has percentiles. Where the row's clock ran over all calls together, some more are made. */
static double *sample_calls(struct bench *bench, const struct bench_call *call, int *count)
{
    *count = *count < MOST_SAMPLES ? *count : MOST_SAMPLES;
    double *times = bench_memory(bench, (size_t)*count * sizeof *times);
    time_calls(bench, call, *count, times);
    return times;
}

/* -- a row ------------------------------------------------------------------------------------- */

static void time_direction(struct bench *bench, const struct bench_call *call,
                           struct bench_timing *timing, int *calls)
{
    const struct bench_options *options = &bench->options;
    double *times = NULL;
    bool each = options->per_iteration || (options->csv && is_fresh(bench, call));
    *calls = pilot(bench, call);
    struct spent total = time_row(bench, call, calls, each ? &times : NULL);
    timing->time_us = combine_time(bench, total.wall / *calls);
    timing->processor_us = bench_agree(bench, total.processor / *calls, GYRE_SUM);
    int samples = *calls;
    if (!each && options->csv) {
        times = sample_calls(bench, call, &samples);
    }
    if (times) {
        sum_up_calls(bench, times, samples, &timing->calls);
    }
}

static void measure(struct bench *bench, struct bench_call call, bool in_place, uint64_t bytes,
                    struct bench_timing *timing, int *calls)
{
    int ranks_wrong;
    bench_call_aim(bench, &call, bytes, in_place);
    call.iterations = bench_iterations(&bench->options, bytes);
    *timing = (struct bench_timing){.wrong = -1, .measured = true};
    time_direction(bench, &call, timing, calls);
    timing->alg_bw = (double)bench_call_bytes(bench, &call) / 1e3 / fmax(timing->time_us, 1e-6);
    timing->bus_bw = timing->alg_bw * bench->verb->bus_factor(bench->n);
    timing->wrong = bench_call_check(bench, &call, &ranks_wrong);
    bench->report.out_of_bounds += ranks_wrong;
}

void bench_measure_row(struct bench *bench, const struct bench_call *call, uint64_t bytes,
                       struct bench_row *row)
{
    int in_place_calls;
    struct bench_call aimed = *call;
    bench_call_aim(bench, &aimed, bytes, false);
    *row = (struct bench_row){.bytes = bench_call_bytes(bench, &aimed),
                              .count = aimed.count,
                              .type = bench_type_name(call->type),
                              .op = bench->verb->reduces ? bench_op_name(call->reduction) : "none",
                              .root = bench->verb->rooted ? call->root : -1,
                              .in_place = {.wrong = -1}};
    measure(bench, *call, false, bytes, &row->out_of_place, &row->iterations);
    if (!bench->verb->only_out_of_place) {
        measure(bench, *call, true, bytes, &row->in_place, &in_place_calls);
    }
}

void bench_row_release(struct bench_row *row)
{
    struct bench_calls *calls[] = {&row->out_of_place.calls, &row->in_place.calls};
    for (int i = 0; i < 2; i++) {
        free(calls[i]->times);
        free(calls[i]->by_rank);
    }
}

static void warm_up_size(struct bench *bench, const struct bench_call *call, uint64_t bytes)
{
    struct bench_call warm = *call;
    bench_call_aim(bench, &warm, bytes, false);
    for (int i = 0; i < bench->options.warmups; i++) {
        bench_call_make(bench, &warm);
    }
}

void bench_warm_up(struct bench *bench, const struct bench_call *call)
{
    const struct bench_options *options = &bench->options;
    for (int i = 0; i < options->size_count; i++) {
        warm_up_size(bench, call, options->sizes[i].bytes);
    }
    if (options->size_count) {
        return;
    }
    for (uint64_t bytes = options->min_bytes; bytes <= options->max_bytes; bytes *= 2) {
        warm_up_size(bench, call, bytes);
        bytes += bytes == 0;
    }
}
