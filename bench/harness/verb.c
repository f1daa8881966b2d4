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

double bench_exchange_leaves(int n, int nodes)
{
    return (double)n / nodes * bench_others_leave(n, nodes);
}

struct bench_traffic bench_spread_traffic(int n, bool in_place)
{
    return (struct bench_traffic){1, in_place ? n - 1 : n};
}

struct bench_traffic bench_fold_traffic(int n, bool in_place)
{
    return (struct bench_traffic){n, 1};
}

struct bench_traffic bench_each_traffic(int n, bool in_place)
{
    return (struct bench_traffic){n, n};
}

struct bench_traffic bench_exchange_traffic(int n, bool in_place)
{
    return (struct bench_traffic){in_place ? n - 1 : n, in_place ? n - 1 : n};
}

struct bench_traffic bench_rooted_traffic(int n, bool in_place)
{
    double share = in_place ? bench_share_of_others(n) : 1;
    return (struct bench_traffic){share, share};
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
