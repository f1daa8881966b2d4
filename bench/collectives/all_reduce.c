/* How fast is gyre_all_reduce()?
 *
 *     size S = count, n ranks, t seconds:   algbw = S / t    busbw = algbw * 2 (n-1) / n
 *
 * busbw is what each rank must send, and receive, at least: comparable over n. In shared memory the
 * ceiling is another: every rank's input must be read once and every rank's output written once. */
#include "harness/verb.h"

static int call_all_reduce(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_all_reduce(comm, call->input, call->output, call->count, call->type, call->op);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = lay->output = call->count;
    bench_lay_stretch(lay, 0, call->count, BENCH_ALL_RANKS, 0);
}

static double bus_factor(int n)
{
    return 2.0 * (n - 1) / n;
}

static double leaves(int n, int nodes)
{
    return 2 * bench_others_leave(n, nodes);
}

const struct bench_verb bench_verb = {
    .name = "gyre_all_reduce",
    .reduces = true,
    .call = call_all_reduce,
    .lay = lay,
    .bus_factor = bus_factor,
    .traffic = bench_each_traffic,
    .traffic_text =
        "n size read, n size written: every input is read once, every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = leaves,
};
