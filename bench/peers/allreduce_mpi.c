/* What MPI_Allreduce takes, measured as ../measure.c measures gyre_all_reduce.
 *
 *     mpirun -n 2 allreduce_mpi 8 4096 65536 268435456:5
 *
 * Each argument is a size in bytes, with ":N" if N calls are to be timed rather than at least 20
 * and 50 ms. Sums of floats, out of place, then in place (MPI_IN_PLACE). Up to 4 KiB the clock runs
 * over all calls, back to back. Above, before each call every rank reads its whole output, rewrites
 * its whole input and waits for the others, and only the call itself is timed. A time is the mean
 * over calls and ranks. One more call on data that depend on rank, index and turn is checked.
 *
 * Prints a version line, then one line per size:
 *     size,time_us,wrong,in_place_time_us,in_place_wrong */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PILOT_CALLS 4
#define LEAST_CALLS 20
#define MOST_CALLS  2000000
#define LEAST_US    50e3
#define FRESH_ABOVE 4096 /* bytes */
#define WARM_UPS    2

struct bench {
    int rank, n;
    float *input, *output;
    uint64_t bytes; /* of the row */
    bool in_place;
    int turn; /* of checked data: never the same twice */
};

static volatile uint64_t sink; /* what was read has been used */

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* -- time -------------------------------------------------------------------------------------- */

static void make_call(const struct bench *bench)
{
    const void *input = bench->in_place ? MPI_IN_PLACE : bench->input;
    MPI_Allreduce(input, bench->output, (int)(bench->bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void refresh(const struct bench *bench, int turn)
{
    uint64_t sum = 0, words = bench->bytes / sizeof sum;
    const uint64_t *output = (const uint64_t *)bench->output;
    for (uint64_t i = 0; i < words; i++) {
        sum += output[i];
    }
    sink = sum;
    memset(bench->in_place ? bench->output : bench->input, 0x38 + (turn & 7), bench->bytes);
}

static double time_each(const struct bench *bench, int calls)
{
    double total = 0;
    for (int i = 0; i < calls; i++) {
        refresh(bench, i);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_us();
        make_call(bench);
        total += now_us() - start;
    }
    return total;
}

static double time_calls(const struct bench *bench, int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench->bytes > FRESH_ABOVE) {
        return time_each(bench, calls);
    }
    double start = now_us();
    for (int i = 0; i < calls; i++) {
        make_call(bench);
    }
    return now_us() - start;
}

static int calls_for(double total_us, int calls)
{
    double wanted = ceil(1.25 * LEAST_US / fmax(total_us / calls, 1e-3));
    int chosen = (int)fmin(fmax(wanted, LEAST_CALLS), MOST_CALLS);
    MPI_Bcast(&chosen, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return chosen;
}

/* Microseconds per call; `calls` 0: as many as needed. */
static double time_row(const struct bench *bench, int calls)
{
    time_calls(bench, 1);
    if (calls > 0) {
        return time_calls(bench, calls) / calls;
    }
    calls = calls_for(time_calls(bench, PILOT_CALLS), PILOT_CALLS);
    for (;;) {
        double total = time_calls(bench, calls);
        int wanted = calls_for(total < LEAST_US && calls < MOST_CALLS ? total : INFINITY, calls);
        if (wanted <= calls) {
            return total / calls;
        }
        calls = wanted;
    }
}

/* -- check ------------------------------------------------------------------------------------- */

static float value_at(const struct bench *bench, uint64_t index)
{
    return (float)((index * 7 + (uint64_t)bench->turn) % 1021);
}

/* Wrong elements over all ranks. Sums of small whole numbers are exact. */
static long count_wrong(struct bench *bench)
{
    uint64_t count = bench->bytes / sizeof(float);
    long wrong = 0, ranks = (long)bench->n * (bench->n + 1) / 2;
    float *input = bench->in_place ? bench->output : bench->input;
    bench->turn++;
    memset(bench->output, 0xa5, bench->bytes);
    for (uint64_t i = 0; i < count; i++) {
        input[i] = value_at(bench, i) * (float)(bench->rank + 1);
    }
    make_call(bench);
    for (uint64_t i = 0; i < count; i++) {
        wrong += bench->output[i] != value_at(bench, i) * (float)ranks;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return wrong;
}

/* -- rows -------------------------------------------------------------------------------------- */

static void measure(struct bench *bench, bool in_place, int calls)
{
    bench->in_place = in_place;
    double mean = time_row(bench, calls) / bench->n;
    MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    long wrong = count_wrong(bench);
    if (bench->rank == 0) {
        printf(",%.3f,%ld", mean, wrong);
    }
}

static void run_row(struct bench *bench, const char *word)
{
    char *end;
    bench->bytes = strtoull(word, &end, 10);
    int calls = *end == ':' ? atoi(end + 1) : 0;
    for (int i = 0; i < WARM_UPS; i++) {
        make_call(bench);
    }
    if (bench->rank == 0) {
        printf("%llu", (unsigned long long)bench->bytes);
    }
    measure(bench, false, calls);
    measure(bench, true, calls);
    if (bench->rank == 0) {
        printf("\n");
        fflush(stdout);
    }
}

static float *get_buffer(uint64_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes + 8)) {
        fprintf(stderr, "no memory for %llu bytes\n", (unsigned long long)bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memset(memory, 0x38, bytes + 8); /* touched here, so that no page fault is timed */
}

static void print_version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",")] = '\0';
    printf("# %s\n", text);
}

int main(int argc, char **argv)
{
    struct bench bench = {.in_place = false};
    uint64_t largest = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.n);
    for (int i = 1; i < argc; i++) {
        uint64_t bytes = strtoull(argv[i], NULL, 10);
        largest = bytes > largest ? bytes : largest;
    }
    bench.input = get_buffer(largest);
    bench.output = get_buffer(largest);
    if (bench.rank == 0) {
        print_version();
    }
    for (int i = 1; i < argc; i++) {
        run_row(&bench, argv[i]);
    }
    free(bench.input);
    free(bench.output);
    MPI_Finalize();
    return 0;
}
