/* Regular files that others may have put in their place.
 *
 * A path from a user can name a FIFO, whose open waits for a writer without end, or a terminal. A
 * file that is mapped can change under its reader. What is opened here is a regular file, and what
 * is read here is private memory. */
#ifndef GYRE_BASE_DISK_REGULAR_H
#define GYRE_BASE_DISK_REGULAR_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Opens a regular file for reading without ever waiting; `flags` is 0 or O_NOFOLLOW. Returns the
 * descriptor, with *about filled; -errno; GYRE_INVALID: the file is not a regular one. */
int gyre_regular_open(const char *path, int flags, struct stat *about);

/* Records why gyre_regular_open() returned `status`. */
int gyre_regular_refuse(const char *path, int status, struct gyre_trouble *trouble);

/* Reads a regular file of at most `most` bytes, as long as it was when it was opened, to memory
 * that the caller frees. A zero byte follows the content. */
int gyre_regular_read(const char *path, uint64_t most, char **content, uint64_t *length,
                      struct gyre_trouble *trouble);

/* Writes all of it, also where a signal interrupts. False: errno says why not. For a signal's
 * handler, too. */
bool gyre_regular_write(int fd, const void *from, size_t length);

/* Whether `fd` has all of these seals. A file that cannot be sealed has none. */
bool gyre_has_seals(int fd, int seals);

#endif
