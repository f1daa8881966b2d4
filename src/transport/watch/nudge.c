/* Words from thread to thread: to the one that serves a watch, because another has changed what the
 * watch acts on; and from it, to whoever sleeps on a bell. Tested by tests/program/job/groups.c. */
#include "transport/watch/inside.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void gyre_watch_nudge(struct gyre_watch *watch)
{
    const uint64_t one = 1;

    atomic_store(&watch->nudged, true);
    (void)!write(watch->nudge, &one, sizeof one); /* full: readable already */
}

void gyre_watch_ring(const struct gyre_bell *bell)
{
    uint64_t one = 1;

    if (bell->word != NULL) {
        atomic_fetch_add(bell->word, 1);
        syscall(SYS_futex, bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    if (bell->eventfd >= 0 && write(bell->eventfd, &one, sizeof one) < 0)
        return; /* full: readable already */
}
