/* What bare sockets between nodes carry. */
#ifndef GYRE_BENCH_CEILING_SOCKETS_H
#define GYRE_BENCH_CEILING_SOCKETS_H

#include "harness/bench.h"

/* Bare sockets between nodes, wired as the verb has it. Better rates replace *best; where the
 * sockets cannot be made it stays. Collective. */
void bench_ceiling_tcp(struct bench *bench, struct bench_sockets *best);

/* The busbw in bytes per second that follows. */
double bench_ceiling_tcp_bus(const struct bench *bench, const struct bench_sockets *best);

#endif
