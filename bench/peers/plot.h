/* busbw over size, a panel for each group, as SVG. */
#ifndef GYRE_BENCH_PEERS_PLOT_H
#define GYRE_BENCH_PEERS_PLOT_H

#include "results.h"

void plot(const struct results *results, FILE *file);

#endif
