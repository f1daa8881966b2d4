/* The helper: a thread that drives started operations while the application computes. */
#ifndef GYRE_COLLECTIVES_COMM_HELPER_H
#define GYRE_COLLECTIVES_COMM_HELPER_H

struct gyre_progress_engine;

/* Sets memory aside for a thread, so that no operation has to. Without memory the first operation
 * that needs a thread asks again. */
void gyre_helper_prepare(struct gyre_progress_engine *progress);

/* Makes the thread, where there is none. 0; -ENOMEM, -EAGAIN. */
int gyre_helper_start(struct gyre_progress_engine *progress);

/* Wakes the helper for started work. The process's first call makes the thread; negative: no thread
 * can be made. */
int gyre_helper_poke(struct gyre_progress_engine *progress);

/* Leaves the domain, to the helper if there is more to do. */
void gyre_helper_take_over(struct gyre_progress_engine *progress);

/* Has the helper drive this engine no more. With its last engine the thread ends. */
void gyre_helper_stop(struct gyre_progress_engine *progress);

#endif
