/* Where records are found: files of a folder, and descriptors of processes. */
#ifndef GYRE_CLI_WHY_SOURCES_H
#define GYRE_CLI_WHY_SOURCES_H

#include "cli/why/trail.h"

int gyre_sources_folder(struct gyre_trails *trails, const char *folder,
                        struct gyre_trouble *trouble);
int gyre_sources_processes(struct gyre_trails *trails, const char *name,
                           struct gyre_trouble *trouble);

#endif
