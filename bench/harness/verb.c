/* Shapes that many collectives have. */
#include "harness/verb.h"

double bench_whole(int n)
{
    return n > 0;
}

double bench_share_of_others(int n)
{
    return (n - 1.0) / n;
}

double bench_whole_leaves(int n, int nodes)
{
    return n >= nodes;
}

double bench_others_leave(int n, int nodes)
{
    return n >= nodes ? (nodes - 1.0) / nodes : 0;
}

uint64_t bench_uneven_start(const struct bench_call *call, int rank)
{
    uint64_t n = (uint64_t)call->n, at = (uint64_t)rank;
    return call->count * at * (at + 1) / (n + 1); /* total * (1 + … + rank) / (1 + … + n) */
}

void bench_lay_stretch(struct bench_lay *lay, uint64_t at, uint64_t count, int source,
                       uint64_t first)
{
    lay->stretch[lay->stretches++] = (struct bench_stretch){at, count, source, first};
}
