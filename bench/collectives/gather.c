/* How fast is gyre_gather()?
 *
 *     size S = n count, t seconds:   algbw = S / t    busbw = algbw * (n-1) / n
 *
 * Each rank gives a block, the root alone receives all n of them; in place its input is its own
 * block of the output. A rank may return before the root has its block, so a barrier ends what is
 * timed. In shared memory every input is read once, one output written. */
#include "harness/verb.h"

static int call_gather(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_gather(comm, call->input, call->output, call->count, call->type, call->root);
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = call->count;
    lay->input_at = call->count * (uint64_t)call->rank;
    if (call->rank == call->root) {
        lay->output = call->count * (uint64_t)call->n;
        for (int source = 0; source < call->n; source++) {
            bench_lay_stretch(lay, call->count * (uint64_t)source, call->count, source, 0);
        }
    }
}

const struct bench_verb bench_verb = {
    .name = "gyre_gather",
    .rooted = true,
    .size = BENCH_SIZE_ALL,
    .call = call_gather,
    .lay = lay,
    .bus_factor = bench_share_of_others,
    .traffic = bench_rooted_traffic,
    .traffic_text = "size read and written, in place without the root's own block: every input "
                    "is read once, one output written",
    .wires = BENCH_WIRES_PAIR,
    .leaves = bench_others_leave,
};
