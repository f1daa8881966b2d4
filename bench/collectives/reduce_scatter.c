/* How fast is gyre_reduce_scatter()?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * Each rank gives n blocks and receives one, reduced over all ranks. In place its output is its
 * own block of the input. In shared memory every input is read once, every output written once. */
#include "harness/verb.h"

static int call_reduce_scatter(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_reduce_scatter(comm, call->input, call->output, call->count, call->type, call->op);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    uint64_t own = call->count * (uint64_t)call->rank;
    lay->input = call->count * (uint64_t)call->n;
    lay->output = call->count;
    lay->output_at = own;
    bench_lay_stretch(lay, 0, call->count, BENCH_ALL_RANKS, own);
}

const struct bench_verb bench_verb = {
    .name = "gyre_reduce_scatter",
    .reduces = true,
    .size = BENCH_SIZE_ALL,
    .call = call_reduce_scatter,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_fold_traffic,
    .traffic_text =
        "n size read, size written: every input is read once, every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = bench_others_leave,
};
