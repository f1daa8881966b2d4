/* How much faster could it be?
 *
 * In shared memory the limit is how fast this machine's memory moves bytes. Passes over S bytes
 * (passes.c), by 1 … n ranks at once, over the very buffers of the bench, give three rates: C where
 * as much is read as written (copies, sums, updates), R where all is read, W where all is written.
 * The collective must read r and write w times its size at least (its bench says so, and the footer
 * prints it). What it reads and writes alike goes at C, the rest at R or W:
 *
 *     r >= w:  t >= size * (2 w / C + (r - w) / R)       ceiling = bus factor * size / t
 *     r < w:   t >= size * (2 r / C + (w - r) / W)
 *
 * The passes touch the memory that the collective touches: out of place from input to output; in
 * place half of each output copied to the other half, or all of it updated if the collective does
 * that; as much of it as the collective moves on a rank, and of all ranks, some at once and then
 * the next ones; and with --fresh they find the caches as it does. Of buffers beyond GROUND_MOST,
 * which no cache holds, a part will do; of a device's beyond GROUND_THERE.
 *
 * Of a device's memory (--device cuda) one pass is made, copies by its queue, on all devices at
 * once; what is read or written alone goes at that rate too. Between two devices of a machine the
 * footer has a copy from one to the other as well.
 *
 * Between nodes, or with --transport tcp, the limit is what bare sockets carry (sockets.c).
 *
 * A machine is not equally fast at all times, so R is the best of samples taken before the rows, in
 * the middle and behind them, and of a few more where a row was above all of these. Far more than
 * 100 % means that one of the two figures is wrong, and the bench fails. */
#include "ceiling/ceiling.h"

#include "ceiling/sockets.h"
#include "harness/buffers.h"
#include "harness/together.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_RUNS   6 /* of each pass, over all samples */
#define SAMPLES_MORE 4
#define LEAST_US     2e3
#define FRESH_ABOVE  4096
#define GROUND_LEAST 256 /* bytes */
#define LONG_PASS    ((size_t)256 << 10)
#define GROUND_MOST  ((size_t)64 << 20)
#define GROUND_THERE ((size_t)1 << 30) /* most of a device's: its caches hold what GROUND_MOST is */

struct ground { /* what is passed over */
    char *to;
    const char *from;
    size_t bytes; /* a multiple of 128 */
    bool fresh;
};

static volatile unsigned char sink;

/* As much as the collective has on a rank, on average. */
static size_t ground_bytes(const struct bench *bench, bool in_place)
{
    struct bench_traffic traffic = bench->verb->traffic(bench->n, in_place);
    double share = (traffic.reads + traffic.writes) / (2.0 * bench->n);
    size_t bytes = (size_t)(share * (double)bench->largest) / GROUND_LEAST * GROUND_LEAST;
    size_t most = bench->device.is ? GROUND_THERE : GROUND_MOST;
    return bytes < GROUND_LEAST ? GROUND_LEAST : bytes > most ? most : bytes;
}

static struct ground find_ground(const struct bench *bench, bool in_place,
                                 const struct bench_pass *pass)
{
    size_t bytes = ground_bytes(bench, in_place), half = bytes / 2;
    bool fresh = bench->options.fresh && bench->largest > FRESH_ABOVE;
    if (in_place && pass->kind == BENCH_COPIES && !pass->in_place) {
        return (struct ground){(char *)bench->output + half, bench->output, half, fresh};
    }
    return (struct ground){bench->output, in_place ? bench->output : bench->input, bytes, fresh};
}

/* As between timed calls: the target read, the source written. */
static void refresh(const struct ground *ground, int turn)
{
    unsigned char sum = 0;
    for (size_t i = 0; i < ground->bytes; i += 64) {
        sum += (unsigned char)ground->to[i];
    }
    sink = sum;
    memset((char *)ground->from, 0x38 + (turn & 7), ground->bytes);
}

/* How many are taken: a middle is there from 2 rows on. */
static int samples(const struct bench *bench)
{
    return bench->rows > 1 ? 3 : 2;
}

static void go_over(struct bench *bench, const struct bench_pass *pass, const struct ground *ground,
                    int turns)
{
    if (bench->device.is) {
        bench_device_copies(bench, ground->to, ground->from, ground->bytes, turns);
        return;
    }
    for (int i = 0; i < turns; i++) {
        pass->run(ground->to, ground->from, ground->bytes);
    }
}

/* Microseconds of `turns` passes of these ranks, from the first one's start to the last one's end
 * by the clock of their machine: where ranks share cores one may begin late, and would be timed
 * alone. */
static double time_some(struct bench *bench, const struct bench_pass *pass,
                        const struct ground *ground, int first, int ranks, int turns)
{
    double start = HUGE_VAL, end = 0;
    bench_together(bench);
    if (bench->rank >= first && bench->rank < first + ranks) {
        start = bench_now_us();
        go_over(bench, pass, ground, turns);
        end = bench_now_us();
    }
    start = bench_agree(bench, start, GYRE_MIN);
    return bench_agree(bench, end, GYRE_MAX) - start;
}

/* The same of all ranks, so many at once. Long passes go round one by one: a rank that repeats its
 * own would keep in the cache what the others drive out of it in the collective. */
static double time_passes(struct bench *bench, const struct bench_pass *pass,
                          const struct ground *ground, int ranks, int turns)
{
    bool round = ground->fresh || (ranks < bench->n && ground->bytes >= LONG_PASS);
    int burst = round ? 1 : turns;
    double total = 0;
    for (int done = 0; done < turns; done += burst) {
        if (ground->fresh) {
            refresh(ground, done);
        }
        for (int first = 0; first < bench->n; first += ranks) {
            total += time_some(bench, pass, ground, first, ranks, burst);
        }
    }
    return total;
}

static int turns_for(struct bench *bench, double once_us, bool fresh)
{
    double turns = ceil(LEAST_US / fmax(once_us, 1e-2));
    return (int)bench_from_root(bench, fmin(fmax(turns, 1), fresh ? 20 : 100000));
}

static void try_pass(struct bench *bench, const struct bench_pass *pass,
                     const struct ground *ground, int ranks, struct bench_rate *best)
{
    double once = time_passes(bench, pass, ground, ranks, 1) * ranks / bench->n;
    int turns = turns_for(bench, once, ground->fresh);
    for (int i = 0; i < LEAST_RUNS / samples(bench); i++) {
        double total = time_passes(bench, pass, ground, ranks, turns);
        double moved = (pass->kind == BENCH_COPIES ? 2.0 : 1.0) * (double)ground->bytes;
        double rate = moved * turns * bench->n / fmax(total, 1e-3);
        if (rate > best->bytes_per_us) {
            *best = (struct bench_rate){rate, pass->name, ground->bytes, ranks};
        }
    }
}

/* Never more than there are cores: taking turns looks like going at once, as each is timed alone.
 */
static int most_at_once(struct bench *bench)
{
    double cores = bench_from_root(bench, bench_machine_cores());
    return cores > bench->n ? bench->n : (int)cores;
}

/* Is the pass something that the collective does too? */
static bool is_alike(const struct bench *bench, bool in_place, const struct bench_pass *pass)
{
    struct bench_traffic traffic = bench->verb->traffic(bench->n, in_place);
    switch (pass->kind) {
    case BENCH_READS:
        return traffic.reads > traffic.writes;
    case BENCH_WRITES:
        return traffic.writes > traffic.reads;
    default:
        return !pass->in_place || (in_place && bench->verb->reduces);
    }
}

/* Ranks that share a device are alone on it in turn; those of several are all there at once. */
static void try_device(struct bench *bench, bool in_place)
{
    static const struct bench_pass copy = {.name = "device copy", .kind = BENCH_COPIES};
    struct bench_rate *rate = bench->ceiling.memory[in_place];
    struct ground ground = find_ground(bench, in_place, &copy);
    try_pass(bench, &copy, &ground, 1, &rate[BENCH_COPIES]);
    try_pass(bench, &copy, &ground, bench->n, &rate[BENCH_COPIES]);
    rate[BENCH_READS] = rate[BENCH_WRITES] = rate[BENCH_COPIES];
}

static void try_passes(struct bench *bench, bool in_place)
{
    int most = most_at_once(bench);
    if (bench->device.is) {
        try_device(bench, in_place);
        return;
    }
    for (const struct bench_pass *pass = bench_passes; pass->name; pass++) {
        struct bench_rate *best = &bench->ceiling.memory[in_place][pass->kind];
        if (!is_alike(bench, in_place, pass)) {
            continue;
        }
        struct ground ground = find_ground(bench, in_place, pass);
        for (int ranks = 1; ranks < most; ranks *= 2) {
            try_pass(bench, pass, &ground, ranks, best);
        }
        try_pass(bench, pass, &ground, most, best);
    }
}

static bool on_one_node(const struct bench *bench)
{
    bool one = true;
    for (int rank = 1; rank < bench->n; rank++) {
        one &= bench->place[rank].node == bench->place[0].node;
    }
    return one;
}

static bool has_ceiling(const struct bench *bench)
{
    return !bench->options.no_ceiling && bench->verb->traffic && bench->n > 1 && bench->largest > 0;
}

void bench_ceiling_sample(struct bench *bench)
{
    if (!has_ceiling(bench)) {
        return;
    }
    if (on_one_node(bench)) {
        try_passes(bench, false);
        if (!bench->verb->only_out_of_place) {
            try_passes(bench, true);
        }
    } else {
        bench_ceiling_tcp(bench, &bench->ceiling.sockets);
    }
}

/* -- report ------------------------------------------------------------------------------------ */

static const char *const directions[] = {"out-of-place", "in-place"};

static int directions_of(const struct bench_verb *verb)
{
    return verb->only_out_of_place ? 1 : 2;
}

static void write_rate(char *text, size_t room, double times, const struct bench_rate *rate,
                       const char *how)
{
    snprintf(text, room, "%g / %.2f GB/s %s by %s of %zu B, %d at once", times,
             rate->bytes_per_us / 1e3, how, rate->pass, rate->bytes, rate->ranks);
}

/* Of busbw, in GB/s; in words too. */
static double memory_ceiling(const struct bench *bench, bool in_place, char *text, size_t room)
{
    const struct bench_verb *verb = bench->verb;
    const struct bench_rate *rate = bench->ceiling.memory[in_place];
    struct bench_traffic traffic = verb->traffic(bench->n, in_place);
    double both = 2 * fmin(traffic.reads, traffic.writes), more = traffic.reads - traffic.writes;
    enum bench_kind kind = more > 0 ? BENCH_READS : BENCH_WRITES;
    double each = both / rate[BENCH_COPIES].bytes_per_us;
    write_rate(text, room, both, &rate[BENCH_COPIES], "read and written");
    if (more != 0) {
        size_t length = strlen(text);
        each += fabs(more) / rate[kind].bytes_per_us;
        snprintf(text + length, room - length, " + ");
        write_rate(text + length + 3, room - length - 3, fabs(more), &rate[kind],
                   more > 0 ? "read" : "written");
    }
    return verb->bus_factor(bench->n) / each / 1e3;
}

/* From rank 0's device to the first other one; the ranks have left their buffers alone. */
static void report_peers(struct bench *bench)
{
    int own = bench->place[0].device, other = own;
    for (int rank = 1; rank < bench->n && other == own; rank++) {
        other = bench->place[rank].device;
    }
    if (!bench->device.is || bench->rank != 0 || other == own) {
        return;
    }
    size_t bytes = ground_bytes(bench, false);
    double rate = bench_device_peer_rate(bench, other, bytes);
    if (rate > 0) {
        bench_report_remark(&bench->report, "%-20s : %.2f GB/s from device %d to %d by %zu B",
                            "Peer copy", rate / 1e3, own, other, bytes);
    } else {
        bench_report_remark(&bench->report, "%-20s : device %d does not reach device %d",
                            "Peer copy", own, other);
    }
}

static bool report_memory(struct bench *bench)
{
    const struct bench_verb *verb = bench->verb;
    bool possible = true;
    bench_report_remark(&bench->report, "%-20s : %s", "Least memory traffic", verb->traffic_text);
    for (int in_place = 0; in_place < directions_of(verb); in_place++) {
        char text[256];
        double ceiling = memory_ceiling(bench, in_place, text, sizeof text);
        bench_report_remark(&bench->report, "Ceiling %-12s : %.2f GB/s busbw = %.3g / (%s)",
                            directions[in_place], ceiling, verb->bus_factor(bench->n), text);
        possible &= bench_report_share(&bench->report, directions[in_place],
                                       100 * bench->best_bus[in_place] / ceiling);
    }
    report_peers(bench);
    return possible;
}

static bool report_sockets(struct bench *bench)
{
    const struct bench_sockets *best = &bench->ceiling.sockets;
    bool both_ways = bench->verb->wires == BENCH_WIRES_RING;
    double rate = bench_ceiling_tcp_bus(bench, best) / 1e9;
    bool possible = true;
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
        "Ceiling", rate, best->node_rate / 1e9, rate * 1e9 / best->node_rate, best->per_node,
        best->per_node == 1 ? "" : "s", best->streams, best->streams == 1 ? "" : "s",
        both_ways ? ", both ways at once" : "");
    for (int in_place = 0; in_place < directions_of(bench->verb); in_place++) {
        possible &= bench_report_share(&bench->report, directions[in_place],
                                       100 * bench->best_bus[in_place] / rate);
    }
    return possible;
}

/* Is a row above what all samples saw, by more than the noise? Rank 0 knows the times of all. */
static bool is_passed(struct bench *bench)
{
    bool passed = false, one_node = on_one_node(bench);
    for (int in_place = 0; in_place < directions_of(bench->verb); in_place++) {
        char text[256];
        double ceiling = one_node ? memory_ceiling(bench, in_place, text, sizeof text)
                                  : bench_ceiling_tcp_bus(bench, &bench->ceiling.sockets) / 1e9;
        passed |= ceiling > 0 && bench->best_bus[in_place] > ceiling * (1 + BENCH_NOISE);
    }
    return bench_from_root(bench, passed) > 0;
}

void bench_ceiling_settle(struct bench *bench)
{
    for (int i = 0; i < SAMPLES_MORE && has_ceiling(bench) && is_passed(bench); i++) {
        bench_ceiling_sample(bench);
    }
}

bool bench_ceiling_report(struct bench *bench)
{
    if (bench->options.no_ceiling) {
        return true;
    }
    if (!has_ceiling(bench)) {
        bench_report_remark(&bench->report, "%-20s : none for %s", "Ceiling",
                            bench->n == 1 ? "1 rank" : "0 bytes");
        return true;
    }
    return on_one_node(bench) ? report_memory(bench) : report_sockets(bench);
}
