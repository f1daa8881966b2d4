/* Folders on the disk. */
#ifndef GYRE_BASE_DISK_FOLDER_H
#define GYRE_BASE_DISK_FOLDER_H

#include "base/status.h"

#include <sys/types.h>

/* Makes the folder and those above it that are missing, each with `mode` less the umask. 0, or
 * -errno with the folder that cannot be made in *trouble; -ENOTDIR where a file has its place. */
int gyre_folder_make(const char *path, mode_t mode, struct gyre_trouble *trouble);

#endif
