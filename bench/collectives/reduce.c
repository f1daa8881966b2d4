/* How fast is gyre_reduce()?
 *
 *     size S = count, t seconds:   algbw = busbw = S / t
 *
 * Every rank gives S, the root alone receives S; a rank may return before the root has it, so a
 * barrier ends what is timed. In shared memory every input is read once, one output written. */
#include "harness/verb.h"

static int call_reduce(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_reduce(comm, call->input, call->output, call->count, call->type, call->op,
                       call->root);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = call->count;
    if (call->rank == call->root) {
        lay->output = call->count;
        bench_lay_stretch(lay, 0, call->count, BENCH_ALL_RANKS, 0);
    }
}

const struct bench_verb bench_verb = {
    .name = "gyre_reduce",
    .reduces = true,
    .rooted = true,
    .call = call_reduce,
    .lay = lay,
    .bus_factor = bench_whole,
    .traffic = bench_fold_traffic,
    .traffic_text =
        "n size read, size written: every input is read once, the root's output written once",
    .wires = BENCH_WIRES_CHAIN,
    .leaves = bench_whole_leaves,
};
