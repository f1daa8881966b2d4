/* A whole file to read, mapped; and a whole file to replace, so that nobody ever sees half of it.
 *
 * What a text of trouble calls the file is its path. A mapped file must not be cut shorter by
 * others while it is open: the kernel ends a process that reads behind the new end (SIGBUS). A file
 * that is only ever replaced, as gyre_file_replace() does it, is safe: the mapping keeps the old
 * one alive. */
#ifndef GYRE_DATA_FILES_FILE_H
#define GYRE_DATA_FILES_FILE_H

#include "base/status.h"

#include <stdint.h>
#include <sys/uio.h>

struct gyre_file {
    const uint8_t *data;
    uint64_t length;
};

/* Maps the file for reading; an empty file has data that may not be touched and length 0. Undone by
 * gyre_file_unmap(), which takes a zeroed record too. */
int gyre_file_map(const char *path, struct gyre_file *file, struct gyre_trouble *trouble);
void gyre_file_unmap(struct gyre_file *file);

/* Writes the parts to a new file beside `path`, has them on the disk, then gives the new file the
 * name and has that on the disk too. After a failure `path` is what it was, and the new file is
 * gone; only where the folder itself could not be synced, the new one may already have the name. */
int gyre_file_replace(const char *path, const struct iovec *part, uint64_t parts,
                      struct gyre_trouble *trouble);

/* Has on the disk what names the folder of `path` holds. */
int gyre_file_sync_folder(const char *path, struct gyre_trouble *trouble);

#endif
