/* Processes that the kernel kills because memory is short. */
#ifndef GYRE_BASE_MACHINE_STARVED_H
#define GYRE_BASE_MACHINE_STARVED_H

#include <stddef.h>
#include <stdint.h>

/* How many processes the kernel has killed so far because memory was short: of this process's
 * control group, or of the machine where groups do not tell. It counts before it kills. `root` is
 * "" for this machine; tests give a folder that has a `proc` and a `sys`. */
uint64_t gyre_starved_count(const char *root);

/* Names what limits this process's memory most: "64.0 MiB of /sys/fs/cgroup/job/memory.max", or
 * "the machine's memory". */
void gyre_starved_by(const char *root, char *text, size_t size);

#endif
