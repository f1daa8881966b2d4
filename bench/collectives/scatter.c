/* How fast is gyre_scatter()?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * The root gives a block to every rank; in place its output is its own block of the input. The
 * root may return before the others have theirs, so a barrier ends what is timed. In shared memory
 * one input is read, every output written once. */
#include "harness/verb.h"

static int call_scatter(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_scatter(comm, call->input, call->output, call->count, call->type, call->root);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    uint64_t own = call->count * (uint64_t)call->rank;
    lay->input = call->rank == call->root ? call->count * (uint64_t)call->n : 0;
    lay->output = call->count;
    lay->output_at = own;
    bench_lay_stretch(lay, 0, call->count, call->root, own);
}

const struct bench_verb bench_verb = {
    .name = "gyre_scatter",
    .rooted = true,
    .size = BENCH_SIZE_ALL,
    .call = call_scatter,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_rooted_traffic,
    .traffic_text = "size read and written, in place without the root's own block: one input "
                    "is read, every output written once",
    .wires = BENCH_WIRES_PAIR,
    .leaves = bench_others_leave,
};
