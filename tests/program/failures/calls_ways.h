/* Scenes of the ways in which ranks come together. Each returns 0, or -1 where a call failed and
 * was told. `folder` is the run's own. */
#ifndef GYRE_TESTS_PROGRAM_FAILURES_CALLS_WAYS_H
#define GYRE_TESTS_PROGRAM_FAILURES_CALLS_WAYS_H

int calls_play_first_use(const char *folder);  /* links that each rank makes when it needs them */
int calls_play_folder(const char *folder);     /* ranks that meet in a folder */
int calls_play_store(const char *folder);      /* and in a store of the program's own */
int calls_play_in_process(const char *folder); /* two ranks of each process */

/* Ranks of a job take a newcomer in; a process without RANK is the newcomer. */
int calls_play_grow(const char *folder);

#endif
