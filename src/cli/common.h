/* What the tool's commands share. */
#ifndef GYRE_CLI_COMMON_H
#define GYRE_CLI_COMMON_H

#include <stdbool.h>
#include <stddef.h>

struct gyre_trouble;

/* Prints "gyre COMMAND: story". Returns the exit code for `status`: 2 for bad input, else 1. */
int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble);

/* Sets GYRE_TRANSPORT to `name`, the value of --backend, for this process and the ranks it starts.
 * NULL changes nothing. GYRE_INVALID and the story for an unknown name. */
int gyre_cli_backend(const char *name, struct gyre_trouble *trouble);

/* Sets GYRE_DEVICES to `list`, the value of --devices, likewise. */
int gyre_cli_devices(const char *list, struct gyre_trouble *trouble);

/* The size of the job of which a launcher has made this process a rank, and the launcher's name; 0:
 * it is no rank. */
int gyre_cli_job_around(char launcher[32]);

/* Whether the launcher has started this process in a job that runs. */
bool gyre_cli_joins(void);

/* How often this process's job was restarted, as its launcher says; 0 where gyre_init() will refuse
 * what it says. */
int gyre_cli_restarts(void);

/* Prints a line for each variable that nothing reads, "gyre COMMAND: nothing reads …". Only what a
 * user starts says so: a rank of `gyre run` has been told. */
void gyre_cli_tell_strangers(const char *command);

/* Writes this tool's own path, for commands that start it again. 0 or a negative status. */
int gyre_cli_path(char *path, size_t room, struct gyre_trouble *trouble);

#endif
