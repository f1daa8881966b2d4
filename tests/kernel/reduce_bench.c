/* How fast each variant of each fold is: `kernel/reduce --bench`. */
#include "base/clock.h"
#include "kernel/reduce_trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_SPANS 9
#define BENCH_BYTES (UINT64_C(16) << 20)

static double seconds_per_call(gyre_fold fold, const struct gyre_fold_task *task)
{
    uint64_t calls = 1, spent = 0, best = UINT64_MAX;
    for (; spent < 2 * GYRE_MS; calls *= 2) {
        uint64_t start = gyre_now_ns();
        for (uint64_t i = 0; i < calls; i++)
            fold(task, NULL);
        spent = gyre_now_ns() - start;
    }
    calls /= 2;
    for (int repeat = 0; repeat < 5; repeat++) {
        uint64_t start = gyre_now_ns();
        for (uint64_t i = 0; i < calls; i++)
            fold(task, NULL);
        spent = gyre_now_ns() - start;
        best = spent < best ? spent : best;
    }
    return (double)best / (double)calls * 1e-9;
}

/* One line: nanoseconds for 1, 8 and 64 elements, then GB/s read and written at sizes per span. */
static void bench_line(const struct gyre_reduce_table *table, int type, int op, uint32_t sources,
                       uint32_t destinations, bool stream, char *memory)
{
    const void *source[BENCH_SPANS];
    void *destination[BENCH_SPANS];
    for (uint32_t s = 0; s < sources; s++)
        source[s] = memory + s * BENCH_BYTES;
    for (uint32_t d = 0; d < destinations; d++)
        destination[d] = memory + (sources + d) * BENCH_BYTES;
    struct gyre_fold_task task = {.destination = destination,
                                  .source = source,
                                  .destinations = destinations,
                                  .sources = sources,
                                  .stream = stream};
    size_t size = gyre_type_size((enum gyre_type)type);
    printf("%-10s %-6s %-4s %u>%u %s", table->variant[type][op], gyre_type_name((uint32_t)type),
           gyre_op_name((uint32_t)op), sources, destinations, stream ? "stream" : "      ");
    for (task.count = 1; task.count <= 64; task.count *= 8)
        printf(" %7.1f", seconds_per_call(table->fold[type][op], &task) * 1e9);
    for (uint64_t bytes = 4096; bytes <= BENCH_BYTES; bytes *= 16) {
        task.count = bytes / size;
        double moved = (double)bytes * (sources + destinations);
        printf(" %8.2f", moved / seconds_per_call(table->fold[type][op], &task) * 1e-9);
    }
    printf("\n");
}

static void bench_variant(const struct gyre_reduce_table *table, char *memory)
{
    static const uint32_t shape[][2] = {{2, 1}, {2, 2}, {3, 1}, {4, 1}, {4, 4}, {8, 1}};
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        bench_line(table, GYRE_F32, GYRE_SUM, shape[i][0], shape[i][1], false, memory);
        bench_line(table, GYRE_F32, GYRE_SUM, shape[i][0], shape[i][1], true, memory);
    }
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        for (int op = 0; op < GYRE_OP_COUNT; op++)
            if (gyre_op_suits((enum gyre_type)type, (enum gyre_op)op))
                bench_line(table, type, op, 2, 1, false, memory);
}

int reduce_bench(void)
{
    char *memory = aligned_alloc(4096, BENCH_SPANS * BENCH_BYTES);
    if (!memory)
        return 1;
    memset(memory, 0, BENCH_SPANS * BENCH_BYTES);
    printf("# GB/s = bytes of all sources and destinations; > = sources to destinations\n");
    printf("# variant    type   op          ns: 1       8      64 GB/s: 4K     64K       1M      "
           "16M\n");
    for (int v = 0; gyre_reduce_variants[v].name; v++) {
        struct gyre_reduce_table table = table_up_to(v);
        if (gyre_reduce_variants[v].supported())
            bench_variant(&table, memory);
    }
    free(memory);
    return 0;
}
