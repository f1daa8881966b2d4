/* Mapped files that another process cuts shorter.
 *
 * The kernel ends a process that reads behind the new end with SIGBUS, without a word. Here the
 * mapped files are listed, so that a last word can name the file. */
#ifndef GYRE_DATA_FILES_CUT_SHORT_H
#define GYRE_DATA_FILES_CUT_SHORT_H

#include <stdint.h>

/* Lists a mapping, and drops it. Mappings beyond the 64th are not listed. */
void gyre_cut_short_list(const char *path, const uint8_t *data, uint64_t length);
void gyre_cut_short_drop(const uint8_t *data);

/* From now on a read behind the end of a listed file is told on standard error before it ends this
 * process. For the tool: a library leaves signals to its program. */
void gyre_cut_short_tell(void);

#endif
