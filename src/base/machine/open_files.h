/* How many descriptors this process may have open. */
#ifndef GYRE_BASE_MACHINE_OPEN_FILES_H
#define GYRE_BASE_MACHINE_OPEN_FILES_H

#include <stdbool.h>
#include <sys/resource.h>

/* Raises the soft limit to `need` where it is lower, as far as the hard limit goes. *before gets
 * both limits as they were. False: fewer than `need` are allowed. */
bool gyre_open_files_allow(rlim_t need, struct rlimit *before);

#endif
