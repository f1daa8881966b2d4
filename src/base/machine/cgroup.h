/* The control groups that limit this process: its own, and all above it. */
#ifndef GYRE_BASE_MACHINE_CGROUP_H
#define GYRE_BASE_MACHINE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path of `file` (of version 2) in the group `level` steps above this process's own,
 * whether there is such a file or not. False: that is above the highest. `root` is "" for this
 * machine; tests give a folder that has a `proc` and a `sys`. */
bool gyre_cgroup_path(const char *root, const char *file, int level, char *path, size_t size);

/* Finds the group `level` steps above this process's own among those that limit memory, which are
 * of either version. Writes the group's folder. Returns the version, 1 or 2; 0: that is above the
 * highest. */
int gyre_cgroup_of_memory(const char *root, int level, char *folder, size_t size);

#endif
