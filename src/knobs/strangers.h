/* Variables that begin with GYRE_ and that nothing reads: most likely misspelt. */
#ifndef GYRE_KNOBS_STRANGERS_H
#define GYRE_KNOBS_STRANGERS_H

/* A sentence about the next one, with the knob that was probably meant: each once in a process.
 * NULL: no more. Good until the next call. One thread at a time. */
const char *gyre_stranger_next(void);

#endif
