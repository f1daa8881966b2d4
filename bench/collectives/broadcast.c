/* How fast is gyre_broadcast()?
 *
 *     size S = count, t seconds:   algbw = busbw = S / t
 *
 * In shared memory the root's input must be read once and every other output written once; out of
 * place the root's own output is one more. */
#include "harness/verb.h"

static int call_broadcast(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_broadcast(comm, call->input, call->output, call->count, call->type, call->root);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = call->rank == call->root ? call->count : 0;
    lay->output = call->count;
    bench_lay_stretch(lay, 0, call->count, call->root, 0);
}

const struct bench_verb bench_verb = {
    .name = "gyre_broadcast",
    .rooted = true,
    .call = call_broadcast,
    .lay = lay,
    .bus_factor = bench_whole,
    .traffic = bench_spread_traffic,
    .traffic_text = "size read, n size written, in place (n-1) size: the input is read once, "
                    "every output written once",
    .wires = BENCH_WIRES_CHAIN,
    .leaves = bench_whole_leaves,
};
