/* What the tool's commands share. */
#ifndef GYRE_CLI_COMMON_H
#define GYRE_CLI_COMMON_H

#include <stddef.h>

struct gyre_trouble;

/* Prints "gyre COMMAND: story". Returns the exit code for `status`: 2 for bad input, else 1. */
int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble);

/* Sets GYRE_TRANSPORT to `name`, the value of --backend, for this process and the ranks it starts.
 * NULL changes nothing. GYRE_INVALID and the story for an unknown name. */
int gyre_cli_backend(const char *name, struct gyre_trouble *trouble);

/* Writes this tool's own path, for commands that start it again. 0 or a negative status. */
int gyre_cli_path(char *path, size_t room, struct gyre_trouble *trouble);

#endif
