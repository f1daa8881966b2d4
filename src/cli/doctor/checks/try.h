/* Whether memory of one device can be read by another process on another device: tried, not asked.
 * Only `gyre doctor --try` and its tests use it. */
#ifndef GYRE_CLI_DOCTOR_CHECKS_TRY_H
#define GYRE_CLI_DOCTOR_CHECKS_TRY_H

#include <stdbool.h>
#include <stddef.h>

/* The calling process must not have touched CUDA, because its children do. Makes contexts on both
 * devices, in those. True: the bytes were right; else *words says what was refused, or by whom.
 * Blocks at most a minute. */
bool gyre_doctor_try(int device, int other, char *words, size_t size);

#endif
