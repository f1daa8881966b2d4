/* Results of started work: out of the engine and of packs, into the handles. All calls: owner. */
#ifndef GYRE_COLLECTIVES_COMM_RESULTS_H
#define GYRE_COLLECTIVES_COMM_RESULTS_H

#include "collectives/comm/handles.h"

/* The work's status: GYRE_AGAIN while it is under way. Other threads may end it meanwhile. */
int gyre_results_status(const struct gyre_started *started);

/* Takes every operation that has ended out of the engine; the handles stay. True: some remain, for
 * each of which a thread waits that will soon take it. */
bool gyre_results_collect(struct gyre_comm *comm);

/* Spends the handle of an operation that is over and returns the status; else GYRE_AGAIN. */
int gyre_results_take(struct gyre_started *started);

#endif
