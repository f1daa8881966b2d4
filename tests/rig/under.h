/* Programs under launchers that are not Gyre's. mpirun and mpiexec are run where they are
 * installed. torchrun and srun are not to be had on every machine, so their exact environments are
 * set by hand, one process per rank; torchrun's agent is played by a listener on MASTER_PORT that
 * is none of ours. The real one is run as well where it is installed.
 *
 * Each starts `words`, a shell's, in so many ranks, waits for all, and returns the exit code: the
 * launcher's, or by hand the last that was not 0. Ranks that do not meet give up after 30 s. */
#ifndef GYRE_TESTS_RIG_UNDER_H
#define GYRE_TESTS_RIG_UNDER_H

#include <stddef.h>

extern char under_output[1 << 18]; /* what came of the last, standard error included */

int under_mpirun(int ranks, const char *words); /* Open MPI's; skips the test where it is missing */
int under_mpiexec(int ranks, const char *words); /* MPICH's; the same */
/* `store` is "True" where the agent's own store listens on the port. */
int under_torchrun(int ranks, const char *store, const char *words);
int under_real_torchrun(int ranks, const char *words); /* PyTorch's; skips where it is missing */
int under_srun(int ranks, const char *words);
int under_nothing(const char *line); /* a shell's line as it is */

/* A home for all of them, which goes away with everything in it: cmocka's fixtures. */
const char *under_home(void);
int under_make_home(void **state);
int under_remove_home(void **state);

/* This program is <build>/tests/NAME: a path inside <build>. */
void under_build(char *path, size_t room, const char *inside);

#endif
