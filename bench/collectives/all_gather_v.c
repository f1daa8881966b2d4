/* How fast is gyre_all_gather_v(), where blocks differ?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * count is the mean of the blocks: rank r gives about 2 (r+1) / (n+1) of it. Otherwise as
 * all_gather. */
#include "harness/verb.h"

static void share(const struct bench_call *call)
{
    for (int rank = 0; rank < call->n; rank++) {
        call->recv.at[rank] = bench_uneven_start(call, rank);
        call->recv.count[rank] = bench_uneven_start(call, rank + 1) - call->recv.at[rank];
    }
}

static int call_all_gather_v(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_all_gather_v(comm, call->input, call->output, call->recv.count, call->recv.at,
                             call->type);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = call->recv.count[call->rank];
    lay->output = call->count * (uint64_t)call->n;
    lay->input_at = call->recv.at[call->rank];
    for (int source = 0; source < call->n; source++) {
        bench_lay_stretch(lay, call->recv.at[source], call->recv.count[source], source, 0);
    }
}

const struct bench_verb bench_verb = {
    .name = "gyre_all_gather_v",
    .size = BENCH_SIZE_ALL,
    .share = share,
    .call = call_all_gather_v,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_spread_traffic,
    .traffic_text = "size read, n size written, in place (n-1) size: every input is read once, "
                    "every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = bench_others_leave,
};
