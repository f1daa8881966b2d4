/* The tool's commands. Each gets the words after its name, NULL-terminated, and returns the exit
 * code. */
#ifndef GYRE_CLI_COMMANDS_H
#define GYRE_CLI_COMMANDS_H

#include <stddef.h>

int gyre_cli_run(char **argv);
int gyre_cli_train(char **argv);
int gyre_cli_tune(char **argv);
int gyre_cli_inspect(char **argv);
int gyre_cli_doctor(char **argv);

/* Prints "gyre COMMAND: story" and returns the exit code for `status`: 2 for bad input, else 1. */
struct gyre_trouble;
int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble);

/* --backend NAME: ranks that are started, or this one, reach each other by it. NULL: whatever is set
 * already. GYRE_INVALID and the story. */
int gyre_cli_backend(const char *name, struct gyre_trouble *trouble);

/* Writes this tool's own path, for commands that start it again. 0 or a negative status. */
int gyre_cli_path(char *path, size_t room, struct gyre_trouble *trouble);

#endif
