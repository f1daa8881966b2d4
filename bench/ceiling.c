/* How much faster could it be?
 *
 * In shared memory the limit is how fast this machine's memory moves bytes. A copy of S bytes reads
 * S and writes S; the fastest copy, by 1 … n ranks at once, over the very buffers of the bench,
 * gives the rate R. The collective must read and write at least `traffic` bytes per byte of size
 * (its bench says how many, and the footer prints it), so
 *
 *     busbw  <=  factor * size / t,  t >= traffic * size / R      =>   ceiling = factor * R /
 * traffic
 *
 * The copies touch as much memory as the collective does: out of place from input to output, in
 * place from one half of the output to the other; and with --fresh they find the caches as it does.
 *
 * Between nodes, or with --transport tcp, the limit is what bare sockets carry (ceiling_tcp.c).
 *
 * More than 100 % means that one of the two figures is wrong, so it is a failure of the bench. */
#include "common.h"
#include "copies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS     3
#define LEAST_US    10e3
#define FRESH_ABOVE 4096

struct rate {
    double bytes_per_us; /* read and written */
    const char *method;
    int ranks;
};

struct ground { /* what is copied */
    char *to;
    const char *from;
    size_t bytes;
    bool fresh;
};

static volatile unsigned char sink;

static struct ground find_ground(const struct bench *bench, bool in_place)
{
    size_t bytes = bench->largest, half = bytes / 2 / 64 * 64;
    bool fresh = bench->options.fresh && bytes > FRESH_ABOVE;
    if (in_place && half > 0) {
        return (struct ground){(char *)bench->output + half, bench->output, half, fresh};
    }
    return (struct ground){bench->output, bench->input, bytes, fresh};
}

/* As between timed calls: the source written, the target read. */
static void refresh(const struct ground *ground, int turn)
{
    unsigned char sum = 0;
    for (size_t i = 0; i < ground->bytes; i += 64) {
        sum += (unsigned char)ground->to[i];
    }
    sink = sum;
    memset((char *)ground->from, 0x38 + (turn & 7), ground->bytes);
}

/* Microseconds of `turns` copies, from the moment that all start to the moment that the last ends.
 */
static double time_copies(struct bench *bench, const struct bench_copy *copy,
                          const struct ground *ground, int ranks, int turns)
{
    double total = 0;
    for (int done = 0; done < turns;) {
        int burst = ground->fresh ? 1 : turns;
        if (ground->fresh) {
            refresh(ground, done);
        }
        bench_together(bench);
        double start = bench_now_us();
        for (int i = 0; i < burst && bench->rank < ranks; i++) {
            copy->copy(ground->to, ground->from, ground->bytes);
        }
        double took = bench->rank < ranks ? bench_now_us() - start : 0;
        total += bench_agree(bench, took, GYRE_MAX);
        done += burst;
    }
    return total;
}

static int turns_for(struct bench *bench, double once_us)
{
    double turns = ceil(LEAST_US / fmax(once_us, 1e-2));
    return (int)bench_from_root(bench, fmin(fmax(turns, 1), 100000));
}

static void try_copy(struct bench *bench, const struct bench_copy *copy,
                     const struct ground *ground, int ranks, struct rate *best)
{
    int turns = turns_for(bench, time_copies(bench, copy, ground, ranks, 1));
    turns = ground->fresh && turns > 20 ? 20 : turns;
    for (int i = 0; i < REPEATS; i++) {
        double total = time_copies(bench, copy, ground, ranks, turns);
        double rate = 2.0 * (double)ground->bytes * turns * ranks / fmax(total, 1e-3);
        if (rate > best->bytes_per_us) {
            *best = (struct rate){rate, copy->name, ranks};
        }
    }
}

static struct rate fastest_copy(struct bench *bench, bool in_place)
{
    struct rate best = {0, "", 0};
    struct ground ground = find_ground(bench, in_place);
    for (const struct bench_copy *copy = bench_copies; copy->name; copy++) {
        for (int ranks = 1; ranks < bench->n; ranks *= 2) {
            try_copy(bench, copy, &ground, ranks, &best);
        }
        try_copy(bench, copy, &ground, bench->n, &best);
    }
    return best;
}

/* -- report ------------------------------------------------------------------------------------ */

/* `ceiling` in GB/s. */
static bool report_share(struct bench *bench, const char *direction, double reached, double ceiling)
{
    double share = 100 * reached / ceiling;
    bench_report_remark(&bench->report, "Share %-14s : %.1f %% of the ceiling%s", direction, share,
                        share > 100 ? " FAILED: no machine does more than it can" : "");
    return share <= 100;
}

static bool report_memory(struct bench *bench)
{
    static const char *const directions[] = {"out-of-place", "in-place"};
    const struct bench_verb *verb = bench->verb;
    bool possible = true;
    bench_report_remark(&bench->report, "%-20s : %s", "Least memory traffic", verb->traffic_text);
    for (int in_place = 0; in_place < 2; in_place++) {
        struct rate rate = fastest_copy(bench, in_place);
        double ceiling = rate.bytes_per_us / 1e3 * verb->bus_factor(bench->n) /
                         verb->traffic(bench->n, in_place);
        bench_report_remark(&bench->report,
                            "Ceiling %-12s : %.2f GB/s busbw = %.2f GB/s read and written by %s "
                            "of %llu B (%d at once) * %.3g / %g",
                            directions[in_place], ceiling, rate.bytes_per_us / 1e3, rate.method,
                            (unsigned long long)bench->largest, rate.ranks,
                            verb->bus_factor(bench->n), verb->traffic(bench->n, in_place));
        possible &= report_share(bench, directions[in_place], bench->best_bus[in_place], ceiling);
    }
    return possible;
}

static bool report_sockets(struct bench *bench)
{
    struct bench_sockets best;
    bool both_ways = bench->verb->reduces;
    double rate = bench_ceiling_tcp(bench, both_ways, &best) / 1e9;
    if (rate <= 0) {
        bench_report_remark(&bench->report,
                            "%-20s : not measured, the ranks cannot reach each "
                            "other by host name",
                            "Ceiling");
        return true;
    }
    bench_report_remark(
        &bench->report,
        "%-20s : %.2f GB/s busbw = %.2f GB/s out of each node * %.3g, bare sockets, "
        "%d rank%s a node, %d stream%s each%s",
        "Ceiling", rate, best.node_rate / 1e9, rate * 1e9 / best.node_rate, best.per_node,
        best.per_node == 1 ? "" : "s", best.streams, best.streams == 1 ? "" : "s",
        both_ways ? ", both ways at once" : "");
    bool out_of_place = report_share(bench, "out-of-place", bench->best_bus[0], rate);
    return report_share(bench, "in-place", bench->best_bus[1], rate) && out_of_place;
}

bool bench_ceiling_report(struct bench *bench)
{
    if (bench->options.no_ceiling) {
        return true;
    }
    if (bench->n == 1 || bench->largest == 0) {
        bench_report_remark(&bench->report, "%-20s : none for %s", "Ceiling",
                            bench->n == 1 ? "1 rank" : "0 bytes");
        return true;
    }
    bool one_node = true;
    for (int rank = 1; rank < bench->n; rank++) {
        one_node &= bench->place[rank].node == bench->place[0].node;
    }
    return one_node ? report_memory(bench) : report_sockets(bench);
}
