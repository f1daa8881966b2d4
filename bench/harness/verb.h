/* Answers that many collectives share, for their struct bench_verb. */
#ifndef GYRE_BENCH_HARNESS_VERB_H
#define GYRE_BENCH_HARNESS_VERB_H

#include "harness/bench.h"

/* The whole size travels, or all but one rank's share; the same of what leaves a node. */
double bench_whole(int n);           /* 1 */
double bench_share_of_others(int n); /* (n-1)/n */
double bench_whole_leaves(int n, int nodes);
double bench_others_leave(int n, int nodes); /* (nodes-1)/nodes */

/* Where every rank has a block for each, and those for other nodes leave one by one. */
double bench_exchange_leaves(int n, int nodes);

/* What all ranks together read and write at least, in sizes. In place nobody copies what is its
 * own. */
struct bench_traffic bench_spread_traffic(int n, bool in_place);   /* one input, every output */
struct bench_traffic bench_fold_traffic(int n, bool in_place);     /* every input, one output */
struct bench_traffic bench_each_traffic(int n, bool in_place);     /* every input and output */
struct bench_traffic bench_exchange_traffic(int n, bool in_place); /* the same, n blocks each */
struct bench_traffic bench_rooted_traffic(int n, bool in_place);   /* n blocks, at the root */

/* Where the share of `rank`, of n unequal ones that grow with it, begins in n count elements. */
uint64_t bench_uneven_start(const struct bench_call *call, int rank);
void bench_lay_stretch(struct bench_lay *lay, uint64_t at, uint64_t count, int source,
                       uint64_t first);

#endif
