/* One row: time it, then check it, once out of place and once in place.
 *
 * Hot, as nccl-tests: the clock runs over all calls together, back to back on the same buffers.
 * Fresh: before each call every rank writes its whole input and reads its whole output, waits for
 * the others, and only the call itself is timed; so no cache holds what a real program would not
 * have there. Per iteration (-I): as hot, with a clock around each call.
 *
 * Without -n a row runs until it has 20 calls and 50 ms. How many calls that is rank 0 decides from
 * a pilot, and decides again if the pilot was slower than the row. */
#include "common.h"
#include "pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PILOT_CALLS 4
#define LEAST_CALLS 20
#define MOST_CALLS  2000000
#define LEAST_US    50e3
#define FRESH_ABOVE 4096 /* bytes */
#define GARBAGE     0xa5

static uint64_t bytes_of(const struct bench_call *call)
{
    return call->count * gyre_type_size(call->type);
}

/* -- time -------------------------------------------------------------------------------------- */

static volatile uint64_t sink; /* what was read has been used */

/* Any bits will do that make no subnormal number in any type. */
static void refresh(const struct bench *bench, const struct bench_call *call, int turn)
{
    uint64_t sum = 0, words = bytes_of(call) / sizeof sum;
    const uint64_t *output = bench->output;
    for (uint64_t i = 0; i < words; i++) {
        sum += output[i];
    }
    sink = sum;
    memset(call->input == bench->output ? bench->output : bench->input, 0x38 + (turn & 7),
           bytes_of(call));
}

static void make_call(struct bench *bench, const struct bench_call *call)
{
    int status = bench->verb->call(bench->comm, call);
    if (__builtin_expect(status, 0)) {
        bench_must(bench, status, bench->verb->name);
    }
}

/* A broadcast's root may return before its leaves have the data: the time is over when all have. */
static void finish(struct bench *bench)
{
    if (!bench->verb->reduces) {
        bench_together(bench);
    }
}

static double time_each(struct bench *bench, const struct bench_call *call, int calls, bool fresh,
                        double *times)
{
    double total = 0;
    for (int i = 0; i < calls; i++) {
        if (fresh) {
            refresh(bench, call, i);
            bench_together(bench);
        }
        double start = bench_now_us();
        make_call(bench, call);
        finish(bench);
        double took = bench_now_us() - start;
        total += took;
        if (times) {
            times[i] = took;
        }
    }
    return total;
}

static double time_all(struct bench *bench, const struct bench_call *call, int calls)
{
    double start = bench_now_us();
    for (int i = 0; i < calls; i++) {
        make_call(bench, call);
    }
    finish(bench);
    return bench_now_us() - start;
}

/* Microseconds of all calls, on this rank. `times` may be NULL. */
static double time_calls(struct bench *bench, const struct bench_call *call, int calls,
                         double *times)
{
    bool fresh = bench->options.fresh && bytes_of(call) > FRESH_ABOVE;
    bench_together(bench);
    return fresh || times ? time_each(bench, call, calls, fresh, times)
                          : time_all(bench, call, calls);
}

static int calls_for(double total_us, int calls)
{
    double wanted = ceil(1.25 * LEAST_US / fmax(total_us / calls, 1e-3));
    return (int)fmin(fmax(wanted, LEAST_CALLS), MOST_CALLS);
}

static int pilot(struct bench *bench, const struct bench_call *call)
{
    if (bench->options.iterations) {
        time_calls(bench, call, 1, NULL);
        return bench->options.iterations;
    }
    time_calls(bench, call, 1, NULL);
    double total = time_calls(bench, call, PILOT_CALLS, NULL);
    return (int)bench_from_root(bench, calls_for(total, PILOT_CALLS));
}

/* A number of calls that was too small for 50 ms is replaced, the row done again. */
static double time_row(struct bench *bench, const struct bench_call *call, int *calls,
                       double **times)
{
    for (;;) {
        if (bench->options.per_iteration) {
            free(*times);
            *times = bench_memory(bench, (size_t)*calls * sizeof **times);
        }
        double total = time_calls(bench, call, *calls, *times);
        int wanted = total < LEAST_US && *calls < MOST_CALLS ? calls_for(total, *calls) : 0;
        wanted = bench->options.iterations ? 0 : (int)bench_from_root(bench, wanted);
        if (wanted <= *calls) {
            return total / *calls;
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

/* -I: times of all ranks and, call by call, of the slowest. The row owns both until it is printed.
 */
static void gather_calls(struct bench *bench, double *times, int count, struct bench_calls *calls)
{
    size_t cells = (size_t)bench->n * (size_t)count;
    double *by_rank = bench_memory(bench, cells * sizeof *by_rank);
    memcpy(by_rank + (size_t)bench->rank * (size_t)count, times, (size_t)count * sizeof *times);
    bench_sum(bench, by_rank, cells, GYRE_F64);
    for (size_t i = 0; i < cells; i++) {
        times[i % (size_t)count] = fmax(times[i % (size_t)count], by_rank[i]);
    }
    double *scratch = bench_memory(bench, (size_t)count * sizeof *scratch);
    bench_calls_measure(calls, times, count, scratch);
    free(scratch);
    calls->by_rank = by_rank;
    calls->n = bench->n;
}

/* -- check ------------------------------------------------------------------------------------- */

static void fill(struct bench *bench, const struct bench_call *call, struct bench_pattern pattern)
{
    int source = pattern.reduce ? 0 : call->root;
    bool in_place = call->input == bench->output;
    if (!in_place || (!pattern.reduce && bench->rank != call->root)) {
        memset(bench->output, GARBAGE, bytes_of(call));
    }
    if (bench->options.plant == BENCH_PLANT_STALE && bench->rank == source) {
        pattern.iteration--; /* what the call before this one brought */
    }
    if (pattern.reduce || bench->rank == call->root) {
        bench_pattern_fill(&pattern, bench->rank, in_place ? bench->output : bench->input,
                           call->count);
    }
}

/* Wrong elements on this rank. */
static uint64_t check_once(struct bench *bench, const struct bench_call *call)
{
    struct bench_pattern pattern = {.type = call->type,
                                    .reduce = bench->verb->reduces,
                                    .op = call->op,
                                    .root = call->root,
                                    .n = bench->n,
                                    .iteration = ++bench->iteration};
    fill(bench, call, pattern);
    bench_together(bench);
    make_call(bench, call);
    if (bench->options.plant == BENCH_PLANT_ELEMENT && bench->rank == bench->n - 1 &&
        call->count > 0) {
        bench_pattern_spoil(&pattern, call->output, call->count / 2);
    }
    return bench_pattern_count_wrong(&pattern, call->output, call->count);
}

/* Over all ranks; ends at the first check that finds something. -1 without checks. */
static int64_t check(struct bench *bench, const struct bench_call *call)
{
    int64_t found[2] = {0, 0}; /* elements, ranks */
    for (int i = 0; i < bench->options.checks && found[0] == 0; i++) {
        uint64_t wrong = check_once(bench, call);
        found[0] = (int64_t)wrong;
        found[1] = wrong > 0;
        bench_sum(bench, found, 2, GYRE_I64);
    }
    bench->report.out_of_bounds += (int)found[1];
    return bench->options.checks ? found[0] : -1;
}

/* -- a row ------------------------------------------------------------------------------------- */

static void measure(struct bench *bench, struct bench_call call, bool in_place,
                    struct bench_timing *timing, int *calls)
{
    double *times = NULL;
    call.input = in_place ? bench->output : bench->input;
    call.output = bench->output;
    *timing = (struct bench_timing){.wrong = -1};
    *calls = pilot(bench, &call);
    timing->time_us = combine_time(bench, time_row(bench, &call, calls, &times));
    timing->alg_bw = (double)bytes_of(&call) / 1e3 / fmax(timing->time_us, 1e-6);
    timing->bus_bw = timing->alg_bw * bench->verb->bus_factor(bench->n);
    if (times) {
        gather_calls(bench, times, *calls, &timing->calls);
    }
    timing->wrong = check(bench, &call);
}

void bench_measure_row(struct bench *bench, const struct bench_call *call, struct bench_row *row)
{
    int in_place_calls;
    bool reduces = bench->verb->reduces;
    *row = (struct bench_row){.bytes = bytes_of(call),
                              .count = call->count,
                              .type = bench_type_name(call->type),
                              .op = reduces ? bench_op_name(call->op) : "none",
                              .root = reduces ? -1 : call->root};
    measure(bench, *call, false, &row->out_of_place, &row->iterations);
    measure(bench, *call, true, &row->in_place, &in_place_calls);
}

void bench_row_release(struct bench_row *row)
{
    struct bench_calls *calls[] = {&row->out_of_place.calls, &row->in_place.calls};
    for (int i = 0; i < 2; i++) {
        free(calls[i]->times);
        free(calls[i]->by_rank);
    }
}

void bench_warm_up(struct bench *bench, const struct bench_call *call)
{
    struct bench_call warm = *call;
    const struct bench_options *options = &bench->options;
    warm.input = bench->input;
    warm.output = bench->output;
    for (uint64_t bytes = options->min_bytes; bytes <= options->max_bytes; bytes *= 2) {
        warm.count = bytes / gyre_type_size(call->type);
        for (int i = 0; i < options->warmups; i++) {
            make_call(bench, &warm);
        }
        bytes += bytes == 0;
    }
}
