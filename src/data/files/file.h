/* Maps a whole file for reading, and replaces a whole file so that no reader ever sees half of it.
 *
 * Texts of trouble call a file by its path. No process may cut a mapped file shorter while it is
 * open: the kernel ends a process that reads behind the new end (SIGBUS), and the tool says which
 * file was cut (data/files/cut_short.h). A file that is only ever replaced by gyre_file_replace()
 * is safe: the mapping keeps the old file alive. */
#ifndef GYRE_DATA_FILES_FILE_H
#define GYRE_DATA_FILES_FILE_H

#include "base/status.h"

#include <stdint.h>
#include <sys/uio.h>

struct gyre_file {
    const uint8_t *data;
    uint64_t length;
};

/* Maps the file for reading. An empty file has length 0 and data that must not be touched.
 * gyre_file_unmap() undoes the map and takes a zeroed record too. */
int gyre_file_map(const char *path, struct gyre_file *file, struct gyre_trouble *trouble);
void gyre_file_unmap(struct gyre_file *file);

/* Writes the parts to a new file beside `path`, has them on the disk, gives the new file the name
 * and has the name on the disk. After a failure `path` has its former content, and the new file is
 * gone. Only where the folder itself could not be synced, the new file may have the name
 * already. */
int gyre_file_replace(const char *path, const struct iovec *part, uint64_t parts,
                      struct gyre_trouble *trouble);

/* Has the names in the folder of `path` on the disk. */
int gyre_file_sync_folder(const char *path, struct gyre_trouble *trouble);

#endif
