/* The helper: progress for started operations while the application computes. */
#ifndef GYRE_COLLECTIVES_COMM_HELPER_H
#define GYRE_COLLECTIVES_COMM_HELPER_H

struct gyre_progress_engine;

/* Work was started. Makes the thread on first use; negative: there is none to be had. */
int gyre_helper_poke(struct gyre_progress_engine *progress);
void gyre_helper_stop(struct gyre_progress_engine *progress);

#endif
