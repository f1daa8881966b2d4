/* A word to the thread that serves a watch: another thread has changed what the watch acts on.
 * Tested by tests/program/job/groups.c. */
#include "transport/watch/inside.h"

#include <unistd.h>

void gyre_watch_nudge(struct gyre_watch *watch)
{
    const uint64_t one = 1;

    atomic_store(&watch->nudged, true);
    (void)!write(watch->nudge, &one, sizeof one); /* full: readable already */
}
