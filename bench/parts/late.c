/* What does waiting cost, where one rank is always late?
 *
 *     build/bench/late --ranks 8                 4 KiB, 1,000 calls, 1 ms late
 *
 *     call 0   rank 0 ······· sleeps ·······┐    In every call another rank comes 1 ms late; the
 *              rank 1 ▒▒▒ waits ▒▒▒▒▒▒▒▒▒▒▒▒├▶   others wait for it inside gyre_all_reduce().
 *              rank 2 ▒▒▒ waits ▒▒▒▒▒▒▒▒▒▒▒▒┘    Counted is what a rank's process uses of a core
 *     call 1   rank 1 ······· sleeps …           in the calls in which it waits.
 *
 * The processor time is that of all threads of the process, so a helper thread that waits in its
 * place counts as well. A rank that spins uses 100 %. Size and number of calls: -b, -n. */
#include "harness/run.h"
#include "harness/together.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LATE_NS   1000000
#define WORDS_MAX 64

struct waited { /* of one rank, in microseconds; travels in a collective */
    double wall, processor;
};

static void call(struct bench *bench)
{
    bench_must(bench,
               gyre_all_reduce(bench->comm, bench->input, bench->output,
                               bench->options.max_bytes / sizeof(float), GYRE_F32, GYRE_SUM),
               "gyre_all_reduce");
}

static void run_calls(struct bench *bench, struct waited *own)
{
    const struct timespec late = {.tv_nsec = LATE_NS};
    call(bench);
    bench_together(bench);
    for (int i = 0; i < bench->options.iterations; i++) {
        double processor = bench_processor_us(), start = bench_now_us();
        bool waits = i % bench->n != bench->rank;
        if (!waits) {
            nanosleep(&late, NULL);
        }
        call(bench);
        if (waits) {
            own->wall += bench_now_us() - start;
            own->processor += bench_processor_us() - processor;
        }
    }
}

static void report(struct bench *bench, const struct waited *of_rank)
{
    double most = 0;
    if (bench->rank != 0) {
        return;
    }
    printf("# %d ranks on %d cores, load average %.2f, %llu B, %d calls, in each one rank %d us "
           "late\n",
           bench->n, bench_machine_cores(), bench_machine_load(),
           (unsigned long long)bench->options.max_bytes, bench->options.iterations, LATE_NS / 1000);
    printf("# %4s  %11s  %14s  %7s\n# %4s  %11s  %14s  %7s\n", "rank", "waited", "processor",
           "used", "", "(us / call)", "(us / call)", "(%)");
    for (int rank = 0; rank < bench->n; rank++) {
        const struct waited *waited = &of_rank[rank];
        double calls = bench->options.iterations * (bench->n - 1.0) / bench->n;
        double used = waited->wall > 0 ? 100 * waited->processor / waited->wall : 0;
        printf("%6d  %11.1f  %14.2f  %7.2f\n", rank, waited->wall / calls,
               waited->processor / calls, used);
        most = used > most ? used : most;
    }
    printf("# Most of a core that a waiting rank uses : %.2f %%\n", most);
}

/* The bench's own sizes stand before the caller's flags, which win. */
static int enter(int argc, char **argv, struct bench *bench)
{
    static char *words[WORDS_MAX] = {NULL, "-b4K", "-e4K", "-n1000"};
    int own = 4;
    if (argc + own > WORDS_MAX) {
        fprintf(stderr, "%s: more than %d words\n", argv[0], WORDS_MAX - own);
        return BENCH_EXIT_USAGE;
    }
    words[0] = argv[0];
    memcpy(words + own, argv + 1, (size_t)(argc - 1) * sizeof *argv);
    return bench_enter(argc + own - 1, words, bench);
}

int main(int argc, char **argv)
{
    struct bench bench = {.verb = NULL};
    int code = enter(argc, argv, &bench);
    if (code >= 0) {
        return code;
    }
    if (bench.n < 2) {
        fprintf(stderr, "waiting takes 2 ranks or more: use --ranks 8\n");
        return bench_leave_with(&bench, BENCH_EXIT_USAGE);
    }
    struct waited *of_rank = bench_memory(&bench, (size_t)bench.n * sizeof *of_rank);
    run_calls(&bench, &of_rank[bench.rank]);
    bench_sum(&bench, of_rank, 2 * (uint64_t)bench.n, GYRE_F64);
    report(&bench, of_rank);
    free(of_rank);
    return bench_leave(&bench, true);
}
