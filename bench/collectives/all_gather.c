/* How fast is gyre_all_gather()?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * Each rank gives a block and receives all n of them. In place its input is its own block of the
 * output. In shared memory every input is read once, and all of every output written but, in
 * place, the own block. */
#include "harness/verb.h"

static int call_all_gather(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_all_gather(comm, call->input, call->output, call->count, call->type);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = call->count;
    lay->output = call->count * (uint64_t)call->n;
    lay->input_at = call->count * (uint64_t)call->rank;
    for (int source = 0; source < call->n; source++) {
        bench_lay_stretch(lay, call->count * (uint64_t)source, call->count, source, 0);
    }
}

const struct bench_verb bench_verb = {
    .name = "gyre_all_gather",
    .size = BENCH_SIZE_ALL,
    .call = call_all_gather,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_spread_traffic,
    .traffic_text = "size read, n size written, in place (n-1) size: every input is read once, "
                    "every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = bench_others_leave,
};
