/* Agreements between ranks go through the library that is measured. */
#include "harness/together.h"

#include <stdlib.h>
#include <time.h>

int bench_exit_code(int status)
{
    switch (status) {
    case GYRE_TIMED_OUT:
        return BENCH_EXIT_TIMED_OUT;
    case GYRE_UNSUPPORTED:
        return BENCH_EXIT_UNSUPPORTED;
    case GYRE_INVALID:
    case GYRE_REFUSED:
        return BENCH_EXIT_USAGE;
    default:
        return BENCH_EXIT_LIBRARY;
    }
}

void bench_must(struct bench *bench, int status, const char *what)
{
    if (status == GYRE_OK) {
        return;
    }
    const char *story = gyre_error(bench->comm);
    fprintf(stderr, "rank %d: %s: %s: %s\n", bench->rank, what, gyre_status_name(status), story);
    bench_report_close(&bench->report, story[0] ? story : gyre_status_name(status));
    exit(bench_exit_code(status));
}

double bench_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

double bench_processor_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

double bench_agree(struct bench *bench, double value, enum gyre_op op)
{
    bench_must(bench, gyre_all_reduce(bench->comm, &value, &value, 1, GYRE_F64, op),
               "agreeing on a number");
    return value;
}

/* Not a broadcast, which what is named by --algo for all-reduces may not build. */
double bench_from_root(struct bench *bench, double value)
{
    return bench_agree(bench, bench->rank ? 0 : value, GYRE_SUM);
}

void bench_sum(struct bench *bench, void *data, uint64_t count, enum gyre_type type)
{
    bench_must(bench, gyre_all_reduce(bench->comm, data, data, count, type, GYRE_SUM),
               "gathering from all ranks");
}

void bench_together(struct bench *bench)
{
    bench_must(bench, gyre_barrier(bench->comm), "barrier");
}

void *bench_memory(struct bench *bench, size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "rank %d: no memory for %zu bytes\n", bench->rank, bytes);
        exit(BENCH_EXIT_WRONG);
    }
    return memory;
}
