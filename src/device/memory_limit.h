/* The memory that this process may still allocate, and the limit that says so. */
#ifndef GYRE_DEVICE_MEMORY_LIMIT_H
#define GYRE_DEVICE_MEMORY_LIMIT_H

#include "base/status.h"

#include <stdint.h>

/* Checks that `length` more bytes of shared memory seem to fit under the machine's free memory, the
 * cgroup's limits and RLIMIT_FSIZE. -ENOMEM with a sentence that names the tightest limit. The
 * answer is a guess: nothing is reserved. Blocks for a few small files under /proc and /sys. */
int gyre_memory_limit_check(uint64_t length, struct gyre_trouble *trouble);

#endif
