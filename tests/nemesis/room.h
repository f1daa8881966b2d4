/* A room of its own for a nemesis: process ids, network and /dev/shm that no other program of the
 * machine uses. So whatever is left there after a job is the job's. */
#ifndef GYRE_TESTS_NEMESIS_ROOM_H
#define GYRE_TESTS_NEMESIS_ROOM_H

#include <stdbool.h>

/* Goes on in a child, which is process 1 of the room and cannot leave it; the caller itself waits
 * and exits as the child does. False: the machine does not permit it, and the caller goes on in the
 * open. */
bool room_enter(void);

/* Counts what a job has left 5 s after its ranks have been waited for, at once if there is nothing,
 * and tells each thing on standard error: processes, files in /dev/shm, Unix sockets, TCP
 * connections and listeners. */
int room_leftovers(void);

#endif
