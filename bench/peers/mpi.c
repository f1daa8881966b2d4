/* What MPI takes for the operations of the other benches, measured as ../measure.c measures Gyre's.
 *
 *     mpirun -n 2 mpi all_reduce 8 4096 65536 268435456:5
 *
 * After the operation each argument is a size in bytes, with ":N" if N calls are to be timed rather
 * than at least 20 and 50 ms (where 20 would take over 0.2 s fewer, at least 4). Data are floats,
 * operations are sums, the root is 0; out of place, then in place (MPI_IN_PLACE). MPI_Bcast works
 * in place only: out of place the root copies first, as a program that keeps its input has to. Up
 * to 4 KiB the clock runs over all calls, back to back. Above, before each call every rank reads
 * its whole output, rewrites its whole input and waits for the others, and only the call itself is
 * timed; after it all wait for each other. Of operations with a root some ranks may return early,
 * so a barrier ends what is timed. A time is the mean over calls and ranks; percentiles are those
 * of the slowest rank, call by call; processor time is that of all threads of all ranks, per call.
 * One more call on data that depend on rank, index and turn is checked.
 *
 * Prints a version line, then one line per size; the last five are 0 where there is no such half:
 *     size,time_us,wrong,p50_us,p99_us,processor_us,in_place_time_us,in_place_wrong, … */
#include "mpi_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PILOT_CALLS  4
#define LEAST_CALLS  20
#define MOST_CALLS   2000000
#define MOST_SAMPLES 2000 /* of calls one by one */
#define LEAST_US     50e3
#define ENOUGH_US    200e3 /* where calls are so slow, PILOT_CALLS will do */
#define FRESH_ABOVE  4096  /* bytes */
#define WARM_UPS     2

/* -- time -------------------------------------------------------------------------------------- */

struct spent { /* on this rank, in microseconds */
    double wall, processor;
};

static volatile uint64_t sink; /* what was read has been used */

static double clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static bool is_fresh(const struct peer_bench *bench)
{
    return bench->bytes > FRESH_ABOVE;
}

static void finish(const struct peer_bench *bench)
{
    if (bench->op->rooted) {
        MPI_Barrier(WORLD);
    }
}

static void refresh(const struct peer_bench *bench, int turn)
{
    uint64_t sum = 0, words = (uint64_t)bench->gets * sizeof(float) / sizeof sum;
    const uint64_t *output = (const uint64_t *)bench->output;
    for (uint64_t i = 0; i < words; i++) {
        sum += output[i];
    }
    sink = sum;
    memset(bench->input, 0x38 + (turn & 7), (size_t)bench->gives * sizeof(float));
}

static struct spent time_each(const struct peer_bench *bench, int calls, double *times)
{
    struct spent total = {0, 0};
    for (int i = 0; i < calls; i++) {
        if (is_fresh(bench)) {
            refresh(bench, i);
            MPI_Barrier(WORLD);
        }
        double processor = clock_us(CLOCK_PROCESS_CPUTIME_ID), start = clock_us(CLOCK_MONOTONIC);
        bench->op->call(bench);
        finish(bench);
        double took = clock_us(CLOCK_MONOTONIC) - start;
        total.wall += took;
        total.processor += clock_us(CLOCK_PROCESS_CPUTIME_ID) - processor;
        if (times) {
            times[i] = took;
        }
        if (is_fresh(bench)) {
            MPI_Barrier(WORLD);
        }
    }
    return total;
}

static struct spent time_calls(const struct peer_bench *bench, int calls, double *times)
{
    MPI_Barrier(WORLD);
    if (is_fresh(bench) || times) {
        return time_each(bench, calls, times);
    }
    double processor = clock_us(CLOCK_PROCESS_CPUTIME_ID), start = clock_us(CLOCK_MONOTONIC);
    for (int i = 0; i < calls; i++) {
        bench->op->call(bench);
    }
    finish(bench);
    double wall = clock_us(CLOCK_MONOTONIC) - start;
    return (struct spent){wall, clock_us(CLOCK_PROCESS_CPUTIME_ID) - processor};
}

static int calls_for(double total_us, int calls)
{
    double each = fmax(total_us / calls, 1e-3), least = fmin(LEAST_CALLS, ENOUGH_US / each);
    double wanted = ceil(fmax(1.25 * LEAST_US / each, fmax(least, PILOT_CALLS)));
    int chosen = (int)fmin(wanted, MOST_CALLS);
    MPI_Bcast(&chosen, 1, MPI_INT, 0, WORLD);
    return chosen;
}

/* The last calls' own times are left in *times where the clock runs around each. */
static struct spent time_last(const struct peer_bench *bench, int calls, double **times)
{
    if (is_fresh(bench)) {
        *times = realloc(*times, (size_t)calls * sizeof **times);
    }
    return time_calls(bench, calls, *times);
}

/* How many calls a row needs; the last try's time is the row's. */
static struct spent time_row(const struct peer_bench *bench, int *calls, double **times)
{
    time_calls(bench, 1, NULL);
    if (*calls > 0) {
        return time_last(bench, *calls, times);
    }
    *calls = calls_for(time_calls(bench, PILOT_CALLS, NULL).wall, PILOT_CALLS);
    for (;;) {
        struct spent total = time_last(bench, *calls, times);
        bool enough = total.wall >= LEAST_US || *calls >= MOST_CALLS;
        int wanted = calls_for(enough ? INFINITY : total.wall, *calls);
        if (wanted <= *calls) {
            return total;
        }
        *calls = wanted;
    }
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Of the slowest rank, call by call. Where the clock ran over all calls, some more are made. */
static void sum_up(const struct peer_bench *bench, int calls, double *times, double *p50,
                   double *p99)
{
    if (!times) {
        calls = calls < MOST_SAMPLES ? calls : MOST_SAMPLES;
        times = malloc((size_t)calls * sizeof *times);
        time_calls(bench, calls, times);
    }
    MPI_Allreduce(MPI_IN_PLACE, times, calls, MPI_DOUBLE, MPI_MAX, WORLD);
    qsort(times, (size_t)calls, sizeof *times, ascending);
    *p50 = times[calls / 2];
    *p99 = times[(calls * 99 + 99) / 100 - 1];
    free(times);
}

/* -- rows ----------------------------------------------------------------------------------------
 */

/* Wrong elements over all ranks. */
static long count_wrong(struct peer_bench *bench)
{
    long wrong = 0;
    bench->turn++;
    memset(bench->output, 0xa5, (size_t)bench->gets * sizeof(float));
    for (int i = 0; i < bench->gives; i++) {
        bench->input[i] = op_value(bench, bench->rank, i);
    }
    bench->op->call(bench);
    for (int i = 0; i < bench->gets; i++) {
        wrong += bench->output[i] != op_expected(bench, i);
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, WORLD);
    return wrong;
}

static void measure(struct peer_bench *bench, uint64_t bytes, bool in_place, int calls)
{
    double p50, p99, *times = NULL;
    op_aim(bench, bytes, in_place);
    for (int i = 0; i < WARM_UPS; i++) {
        bench->op->call(bench);
    }
    struct spent total = time_row(bench, &calls, &times);
    double spent[2] = {total.wall / calls / bench->n, total.processor / calls};
    MPI_Allreduce(MPI_IN_PLACE, spent, 2, MPI_DOUBLE, MPI_SUM, WORLD);
    sum_up(bench, calls, times, &p50, &p99);
    long wrong = count_wrong(bench);
    if (bench->rank == 0) {
        printf(",%.3f,%ld,%.3f,%.3f,%.3f", spent[0], wrong, p50, p99, spent[1]);
    }
}

static void run_row(struct peer_bench *bench, const char *word)
{
    char *end;
    uint64_t bytes = strtoull(word, &end, 10);
    int calls = *end == ':' ? atoi(end + 1) : 0;
    if (bench->rank == 0) {
        printf("%llu", (unsigned long long)bytes);
    }
    measure(bench, bytes, false, calls);
    if (!bench->op->only_out_of_place) {
        measure(bench, bytes, true, calls);
    }
    if (bench->rank == 0) {
        printf("%s\n", bench->op->only_out_of_place ? ",0,0,0,0,0" : "");
        fflush(stdout);
    }
}

static void *get_memory(uint64_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes)) {
        fprintf(stderr, "no memory for %llu bytes\n", (unsigned long long)bytes);
        MPI_Abort(WORLD, 1);
    }
    return memset(memory, 0x38, bytes); /* touched here, so that no page fault is timed */
}

static void print_version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    printf("# %s\n", text);
}

int main(int argc, char **argv)
{
    struct peer_bench bench = {.in_place = false};
    uint64_t largest = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &bench.rank);
    MPI_Comm_size(WORLD, &bench.n);
    bench.op = op_find(argc > 1 ? argv[1] : "");
    if (!bench.op) {
        fprintf(stderr, "mpi: the first word must be an operation\n");
        MPI_Abort(WORLD, 2);
    }
    for (int i = 2; i < argc; i++) {
        uint64_t bytes = strtoull(argv[i], NULL, 10);
        largest = bytes > largest ? bytes : largest;
    }
    bench.in_buffer = get_memory(largest + 8);
    bench.out_buffer = get_memory(largest + 8);
    for (int i = 0; i < 4; i++) {
        bench.table[i] = get_memory((uint64_t)bench.n * sizeof(int));
    }
    if (bench.rank == 0) {
        print_version();
    }
    for (int i = 2; i < argc; i++) {
        run_row(&bench, argv[i]);
    }
    MPI_Finalize();
    return 0;
}
