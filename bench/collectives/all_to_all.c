/* How fast is gyre_all_to_all()?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * Each rank gives a block to every rank and receives one from each; in place its input is its
 * output. In shared memory every input is read once and every output written once; in place the
 * blocks that a rank gives itself stay where they are. */
#include "harness/verb.h"

static int call_all_to_all(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_all_to_all(comm, call->input, call->output, call->count, call->type);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    uint64_t own = call->count * (uint64_t)call->rank;
    lay->input = lay->output = call->count * (uint64_t)call->n;
    for (int source = 0; source < call->n; source++) {
        bench_lay_stretch(lay, call->count * (uint64_t)source, call->count, source, own);
    }
}

const struct bench_verb bench_verb = {
    .name = "gyre_all_to_all",
    .size = BENCH_SIZE_ALL,
    .call = call_all_to_all,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_exchange_traffic,
    .traffic_text = "n size read, n size written, in place (n-1) size each: every input is "
                    "read once, every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = bench_exchange_leaves,
};
