/* How fast folds of a device's memory are, beside the device's own copies in the same run:
 * `kernel/reduce --device cuda --bench`.
 *
 *     copy      ├──┤├──┤├──┤├──┤   posts behind each other, timed from the first to the last
 *     fold      ├───┤├───┤├───┤   bytes read and written per second, as a share of the copy's
 */
#include "kernel/reduce_device.h"

#include "base/clock.h"
#include "collectives/kernels/reduce_cuda.h"

#include <stdio.h>

#define BENCH_SPANS 9 /* eight sources and a destination */
#define SPAN_MOST   (UINT64_C(1) << 30)
#define SPAN_LEAST  (UINT64_C(1) << 24)
#define POSTS       16
#define REPEATS     5

struct bench {
    const struct gyre_device *device;
    struct gyre_device_queue *queue;
    struct gyre_region region;
    uint64_t span;
    double copy; /* bytes per second, read and written */
};

struct work {
    gyre_fold fold; /* NULL: a copy */
    struct gyre_fold_task task;
    uint64_t bytes; /* of a copy */
};

static char *span_at(const struct bench *bench, uint32_t index)
{
    return (char *)bench->region.base + index * bench->span;
}

static int post(const struct bench *bench, const struct work *work, uint64_t token)
{
    return work->fold ? bench->device->reduce(bench->queue, work->fold, &work->task, token)
                      : bench->device->copy(bench->queue, span_at(bench, BENCH_SPANS - 1),
                                            span_at(bench, 0), work->bytes, token);
}

/* Posts it some times and waits; negative where the device is lost. */
static int run(const struct bench *bench, const struct work *work)
{
    uint64_t token = 0, last = 0;
    for (uint64_t i = 1; i <= POSTS; i++) {
        int posted = post(bench, work, i);
        if (posted < 0)
            return -1;
        last = posted ? last : i; /* 1: it has finished already, and says no more */
    }
    while (token != last)
        if (bench->device->query(bench->queue, &token, 1) < 0)
            return -1;
    return 0;
}

static double seconds_per_post(const struct bench *bench, const struct work *work)
{
    uint64_t best = UINT64_MAX;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        uint64_t start = gyre_now_ns();
        if (run(bench, work))
            return 0;
        uint64_t spent = gyre_now_ns() - start;
        best = spent < best ? spent : best;
    }
    return (double)best * 1e-9 / POSTS;
}

/* A fold of so many sources, by its name. */
struct line {
    const char *what;
    gyre_fold fold;
    enum gyre_type from, to;
    uint32_t sources;
};

/* `bytes` of the wider type's memory, and as many elements of the other's. */
static void bench_fold(const struct bench *bench, const struct line *line, uint64_t bytes)
{
    static const uint64_t numbers[BENCH_SPANS]; /* zeros: no less work */
    const void *source[BENCH_SPANS];
    void *destination = span_at(bench, BENCH_SPANS - 1);
    uint64_t in = gyre_type_size(line->from), out = gyre_type_size(line->to);
    struct work work = {.fold = line->fold,
                        .task = {.destination = &destination,
                                 .destinations = 1,
                                 .source = source,
                                 .sources = line->sources,
                                 .count = bytes / (in > out ? in : out),
                                 .stream = true,
                                 .context = numbers}};
    for (uint32_t s = 0; s < line->sources; s++)
        source[s] = span_at(bench, s);
    double seconds = seconds_per_post(bench, &work);
    double moved = (double)work.task.count * (double)(in * line->sources + out);
    double rate = seconds ? moved / seconds : 0;
    printf("%-6s %-8s %u>1  %8llu KiB  %10.1f us  %8.1f GB/s  %5.1f %% of the copy\n",
           gyre_type_name((uint32_t)line->from), line->what, line->sources,
           (unsigned long long)(bytes >> 10), seconds * 1e6, rate * 1e-9, 100 * rate / bench->copy);
}

static void bench_casts(const struct bench *bench, uint64_t bytes)
{
    static const enum gyre_type casts[][2] = {
        {GYRE_F32, GYRE_BF16}, {GYRE_BF16, GYRE_F32}, {GYRE_F32, GYRE_F16}, {GYRE_F16, GYRE_F32}};
    char what[16];
    for (size_t c = 0; c < sizeof casts / sizeof casts[0]; c++)
        for (uint32_t sources = 1; sources <= 8; sources *= 2) {
            enum gyre_type from = casts[c][0], to = casts[c][1];
            snprintf(what, sizeof what, "to %s", gyre_type_name((uint32_t)to));
            bench_fold(bench, &(struct line){what, gyre_cast_cuda(from, to), from, to, sources},
                       bytes);
        }
}

static void bench_size(struct bench *bench, uint64_t bytes)
{
    static const enum gyre_type types[] = {GYRE_F32, GYRE_F16, GYRE_BF16};
    const struct gyre_reduce_table *table = gyre_reduce_table(GYRE_MEMORY_CUDA);
    struct work copy = {.bytes = bytes};
    double seconds = seconds_per_post(bench, &copy);
    bench->copy = seconds ? 2 * (double)bytes / seconds : 1;
    printf("copy                %8llu KiB  %10.1f us  %8.1f GB/s\n",
           (unsigned long long)(bytes >> 10), seconds * 1e6, bench->copy * 1e-9);
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (uint32_t sources = 2; sources <= 8; sources *= 2) {
            enum gyre_type type = types[t];
            const struct line sum = {"sum", table->fold[type][GYRE_SUM], type, type, sources};
            const struct line multiple = {"multiple", gyre_scale_cuda(type), type, type, sources};
            bench_fold(bench, &sum, bytes);
            bench_fold(bench, &multiple, bytes);
        }
    bench_casts(bench, bytes);
}

/* As much as there is, at most what is wanted. */
static int take_memory(struct bench *bench, struct gyre_trouble *trouble)
{
    int status = -1;
    for (bench->span = SPAN_MOST; status && bench->span >= SPAN_LEAST; bench->span /= 2)
        status = bench->device->alloc(0, BENCH_SPANS * bench->span, GYRE_SHARE_OPEN, &bench->region,
                                      trouble);
    bench->span *= 2;
    return status;
}

int reduce_bench_device(void)
{
    struct gyre_trouble trouble = {0};
    struct gyre_device_identity identity;
    struct bench bench = {.device = gyre_device_of(GYRE_MEMORY_CUDA)};
    if (!bench.device || bench.device->probe(&trouble) < 1 ||
        bench.device->identify(0, &identity, &trouble) ||
        bench.device->queue_create(0, &bench.queue, &trouble) || take_memory(&bench, &trouble)) {
        printf("skipped: %s\n", bench.device ? trouble.text : "this build has no CUDA");
        return 77;
    }
    printf("# %s; GB/s = bytes read and written; best of %d times %d posts\n", identity.name,
           REPEATS, POSTS);
    for (uint64_t bytes = bench.span; bytes >= bench.span >> 12; bytes >>= 6)
        bench_size(&bench, bytes);
    bench.device->free(&bench.region);
    bench.device->queue_destroy(bench.queue);
    return 0;
}
