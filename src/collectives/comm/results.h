/* Results of started work: out of the engine and of packs, into the handles. All calls: owner. */
#ifndef GYRE_COLLECTIVES_COMM_RESULTS_H
#define GYRE_COLLECTIVES_COMM_RESULTS_H

#include "collectives/comm/handles.h"

/* Takes every operation that has ended out of the engine. The handles stay. */
void gyre_results_collect(struct gyre_comm *comm);

/* Spends the handle of an operation that is over and returns the status; else GYRE_AGAIN. */
int gyre_results_take(struct gyre_started *started);

#endif
