/* The helper: progress for started operations while the application computes. */
#ifndef GYRE_COLLECTIVES_COMM_HELPER_H
#define GYRE_COLLECTIVES_COMM_HELPER_H

struct gyre_progress_engine;

/* Wakes the helper for work that was started. The first call makes the thread; negative: none is to
 * be had. */
int gyre_helper_poke(struct gyre_progress_engine *progress);

/* Ends the thread, if there is one. */
void gyre_helper_stop(struct gyre_progress_engine *progress);

#endif
