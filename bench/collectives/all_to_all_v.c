/* How fast is gyre_all_to_all_v(), where blocks differ?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * count is the mean of the blocks: rank r gives rank s about 2 (1 + (r+s) mod n) / (n+1) of it, so
 * each gives and receives S, and r and s give each other as much: in place all blocks stay where
 * they are. The call copies its input first then; the ceiling does not. Otherwise as all_to_all. */
#include "harness/verb.h"

static uint64_t block(const struct bench_call *call, int from, int to)
{
    int weight = (from + to) % call->n;
    return bench_uneven_start(call, weight + 1) - bench_uneven_start(call, weight);
}

static void share(const struct bench_call *call)
{
    uint64_t sent = 0, received = 0;
    for (int peer = 0; peer < call->n; peer++) {
        call->send.at[peer] = sent;
        call->recv.at[peer] = received;
        sent += call->send.count[peer] = block(call, call->rank, peer);
        received += call->recv.count[peer] = block(call, peer, call->rank);
    }
}

static int call_all_to_all_v(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_all_to_all_v(comm, call->input, call->send.count, call->send.at, call->output,
                             call->recv.count, call->recv.at, call->type);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = lay->output = call->count * (uint64_t)call->n;
    for (int source = 0; source < call->n; source++) {
        uint64_t first = 0;
        for (int rank = 0; rank < call->rank; rank++) {
            first += block(call, source, rank);
        }
        bench_lay_stretch(lay, call->recv.at[source], call->recv.count[source], source, first);
    }
}

const struct bench_verb bench_verb = {
    .name = "gyre_all_to_all_v",
    .size = BENCH_SIZE_ALL,
    .share = share,
    .call = call_all_to_all_v,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_exchange_traffic,
    .traffic_text = "n size read, n size written, in place (n-1) size each: every input is "
                    "read once, every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = bench_exchange_leaves,
};
