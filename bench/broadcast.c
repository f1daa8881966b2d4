/* How fast is gyre_broadcast()?
 *
 *     size S, t seconds:   algbw = busbw = S / t
 *
 * In shared memory the root's input must be read once and every other output written once; out of
 * place the root's own output is one more. */
#include "common.h"

static int call_broadcast(struct gyre_comm *comm, const struct bench_call *call)
{
    return gyre_broadcast(comm, call->input, call->output, call->count, call->type, call->root);
}

static double bus_factor(int n)
{
    (void)n;
    return 1;
}

static double traffic(int n, bool in_place)
{
    return in_place ? n : n + 1;
}

int main(int argc, char **argv)
{
    static const struct bench_verb verb = {
        .name = "gyre_broadcast",
        .reduces = false,
        .call = call_broadcast,
        .bus_factor = bus_factor,
        .traffic = traffic,
        .traffic_text = "(n+1) size, in place n size: the input is read once, every output written "
                        "once",
    };
    return bench_main(argc, argv, &verb);
}
