/* One link between two ranks: how late, and how much, one way and both ways.
 *
 *     both ways    gyre_all_reduce of bytes: each rank's data reach the other     S / t each way
 *     one way      gyre_broadcast from rank 0                                      S / t
 *     bare line    two ranks that write one cache line each and wait for the other's, without any
 *                  library: the least that an exchange over shared memory can take
 *     bare kernel  --device cuda: that, and then a kernel that sums as much of the rank's memory
 *
 * Times are medians over batches, so that a batch during which the machine did something else does
 * not count; calls of a batch run back to back. "over" is what gyre adds to the bare line, in
 * nanoseconds, for as long as one fused exchange does the work (up to 4 KiB; of a device's memory
 * up to 32 KiB, and "times" is both ways by bare). Where ranks do not share memory the bare columns
 * are empty. */
#include "harness/run.h"
#include "harness/together.h"

#include "collectives/kernels/reduce.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BATCHES    31
#define BATCH_US   2e3 /* about as long as a batch lasts */
#define FUSED_MOST 4096
#define SHORT_MOST 32768 /* of a device's memory */
#define LINE       64

struct link_row {
    _Alignas(LINE) _Atomic uint64_t turn;
};

struct link_bench {
    struct bench *bench;
    struct link_row *lines; /* one for each rank; NULL where memory is not shared */
    uint64_t turn;
    struct bench_call call;
};

/* -- shared memory without a library ----------------------------------------------------------- */

static void *map_lines(int fd)
{
    void *lines =
        mmap(NULL, 2 * sizeof(struct link_row), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return lines == MAP_FAILED ? NULL : lines;
}

/* Rank 0 makes a file in memory and rank 1 opens it through /proc. Both have it, or none. */
static struct link_row *share_lines(struct bench *bench)
{
    char path[64];
    int own = bench->rank == 0 ? memfd_create("gyre bench", MFD_CLOEXEC) : -1;
    bool sized = own >= 0 && ftruncate(own, 2 * sizeof(struct link_row)) == 0;
    int fd = (int)bench_from_root(bench, sized ? own : -1);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)bench->place[0].pid, fd);
    FILE *file = fd >= 0 && bench->rank == 1 ? fopen(path, "r+e") : NULL;
    bench_together(bench); /* rank 0's descriptor is open until here */
    int mine = bench->rank == 0 ? own : file ? dup(fileno(file)) : -1;
    struct link_row *lines = mine >= 0 && fd >= 0 ? map_lines(mine) : NULL;
    if (file) {
        fclose(file);
    }
    return bench_agree(bench, lines != NULL, GYRE_MIN) != 0 ? lines : NULL;
}

static void exchange_line(struct link_bench *link)
{
    int rank = link->bench->rank;
    uint64_t turn = ++link->turn;
    atomic_store_explicit(&link->lines[rank].turn, turn, memory_order_release);
    for (int spins = 0;
         atomic_load_explicit(&link->lines[1 - rank].turn, memory_order_acquire) < turn; spins++) {
        if (spins > 10000) { /* the other rank has no core */
            usleep(1);
        }
    }
}

/* Of two sources, as the sum of two ranks has; the host learns of its end as the library does. */
static void run_kernel(struct link_bench *link)
{
    struct bench_device *device = &link->bench->device;
    const struct bench_call *call = &link->call;
    void *to = call->output;
    const void *from[] = {call->input, call->input};
    struct gyre_fold_task task = {.destination = &to,
                                  .destinations = 1,
                                  .source = from,
                                  .sources = 2,
                                  .count = call->count / 4};
    gyre_fold fold = gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_F32][GYRE_SUM];
    uint64_t token = ++device->token, done = 0;
    int status = device->is->reduce(device->queue, fold, &task, token);
    while (status >= 0 && done != token) {
        status = device->is->query(device->queue, &done, 1);
    }
    bench_must(link->bench, status < 0 ? status : 0, "a bare kernel");
}

static void exchange_bare(struct link_bench *link)
{
    exchange_line(link);
    if (link->bench->device.is) {
        run_kernel(link);
    }
}

/* -- calls ------------------------------------------------------------------------------------- */

/* Sums of floats, as in the tables; of what is no number of them, bytes. */
static void exchange(struct link_bench *link)
{
    const struct bench_call *call = &link->call;
    bool words = call->count % 4 == 0;
    bench_must(link->bench,
               gyre_all_reduce(link->bench->comm, call->input, call->output,
                               words ? call->count / 4 : call->count, words ? GYRE_F32 : GYRE_U8,
                               words ? GYRE_SUM : GYRE_MAX),
               "gyre_all_reduce");
}

static void send_one_way(struct link_bench *link)
{
    const struct bench_call *call = &link->call;
    bench_must(
        link->bench,
        gyre_broadcast(link->bench->comm, call->input, call->output, call->count, GYRE_U8, 0),
        "gyre_broadcast");
}

/* -- time -------------------------------------------------------------------------------------- */

static double time_batch(struct link_bench *link, void (*work)(struct link_bench *), int calls)
{
    bench_together(link->bench);
    double start = bench_now_us();
    for (int i = 0; i < calls; i++) {
        work(link);
    }
    return (bench_now_us() - start) / calls;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Median microseconds of one call, of the slower rank. A broadcast's root may run ahead of its
 * leaf, by less than a batch. */
static double measure(struct link_bench *link, void (*work)(struct link_bench *))
{
    double batches[BATCHES];
    double once = fmax(time_batch(link, work, 4), 1e-3);
    int calls = (int)bench_from_root(link->bench, fmin(fmax(BATCH_US / once, 1), 20000));
    for (int i = 0; i < BATCHES; i++) {
        batches[i] = time_batch(link, work, calls);
    }
    qsort(batches, BATCHES, sizeof batches[0], ascending);
    return bench_agree(link->bench, batches[BATCHES / 2], GYRE_MAX);
}

/* -- table ------------------------------------------------------------------------------------- */

static void print_header(const struct link_bench *link)
{
    const struct bench *bench = link->bench;
    if (bench->rank != 0) {
        return;
    }
    for (int rank = 0; rank < 2; rank++) {
        printf("# rank %d: pid %d on %s, %s\n", rank, bench->place[rank].pid,
               bench->place[rank].host, bench->place[rank].chip);
    }
    printf("# load average %.2f on %d cores\n", bench_machine_load(), bench_machine_cores());
    printf("# medians of %d batches; GB = 10^9 bytes\n", BATCHES);
    bool on_device = bench->device.is != NULL;
    printf("# %10s  %9s  %9s  %9s  %9s  %9s  %9s%s\n", "size", "both", "each way", "one way", "",
           on_device ? "bare kern" : "bare line", "over", on_device ? "      times" : "");
    printf("# %10s  %9s  %9s  %9s  %9s  %9s  %9s\n", "(B)", "(us)", "(GB/s)", "(us)", "(GB/s)",
           "(us)", "(ns)");
}

static double rate(uint64_t bytes, double us)
{
    return (double)bytes / 1e3 / fmax(us, 1e-6);
}

static void run_size(struct link_bench *link, uint64_t bytes)
{
    link->call.count = bytes;
    double both = measure(link, exchange), one_way = measure(link, send_one_way);
    uint64_t most = link->bench->device.is ? SHORT_MOST : FUSED_MOST;
    double bare = link->lines && bytes <= most ? measure(link, exchange_bare) : 0;
    if (link->bench->rank != 0) {
        return;
    }
    printf("%12llu  %9.3f  %9.3f  %9.3f  %9.3f", (unsigned long long)bytes, both, rate(bytes, both),
           one_way, rate(bytes, one_way));
    if (bare > 0) {
        printf("  %9.3f  %9.0f", bare, 1e3 * (both - bare));
    }
    if (bare > 0 && link->bench->device.is) {
        printf("  %9.2f", both / bare);
    }
    printf("\n");
    fflush(stdout);
}

static void run_sizes(struct link_bench *link)
{
    uint64_t bytes = link->bench->options.min_bytes;
    do {
        run_size(link, bytes);
    } while (bench_next_size(&link->bench->options, &bytes));
}

static bool refuses(const struct bench *bench)
{
    if (bench->n != 2 && bench->rank == 0) {
        fprintf(stderr, "a link has 2 ends, this job has %d ranks: use --ranks 2\n", bench->n);
    }
    return bench->n != 2;
}

int main(int argc, char **argv)
{
    struct bench bench = {.verb = NULL};
    int code = bench_enter(argc, argv, &bench);
    if (code >= 0) {
        return code;
    }
    if (refuses(&bench)) {
        return bench_leave_with(&bench, BENCH_EXIT_USAGE);
    }
    struct link_bench link = {.bench = &bench,
                              .lines = share_lines(&bench),
                              .call = {.input = bench.input, .output = bench.output}};
    print_header(&link);
    run_sizes(&link);
    return bench_leave(&bench, true);
}
