/* How fast are gyre_send() and gyre_recv(), where every rank does both at once?
 *
 *     size S = count, t seconds:   algbw = busbw = S / t
 *
 * Each rank sends S to the next and receives S from the one before, in a group: all send first. In
 * place would be to send what is being overwritten, so there is no such half. In shared memory
 * every input is read once, every output written once. */
#include "harness/verb.h"

static int call_sendrecv(struct gyre_comm *comm, const struct bench_call *call)
{
    int next = (call->rank + 1) % call->n, before = (call->rank + call->n - 1) % call->n;
    int status = gyre_group_start(comm);
    if (status) {
        return status;
    }
    int sent = gyre_send(comm, call->input, call->count, call->type, next);
    int received = gyre_recv(comm, call->output, call->count, call->type, before);
    status = gyre_group_end(comm);
    return sent ? sent : received ? received : status;
}

static void lay(const struct bench_call *call, struct bench_lay *lay)
{
    lay->input = lay->output = call->count;
    bench_lay_stretch(lay, 0, call->count, (call->rank + call->n - 1) % call->n, 0);
}

const struct bench_verb bench_verb = {
    .name = "gyre_send and gyre_recv",
    .only_out_of_place = true,
    .call = call_sendrecv,
    .lay = lay,
    .bus_factor = bench_whole,
    .traffic = bench_each_traffic,
    .traffic_text = "n size read, n size written: every input is read once, "
                    "every output written once",
    .wires = BENCH_WIRES_RING,
    .leaves = bench_whole_leaves,
};
