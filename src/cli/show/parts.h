/* The parts of gyre show. Each gets the words after its own, NULL-terminated, prints to standard
 * output and returns the exit code: 0; 2 with one message on standard error for bad input; 1 for
 * anything else. */
#ifndef GYRE_CLI_SHOW_PARTS_H
#define GYRE_CLI_SHOW_PARTS_H

/* The algorithm that is chosen for each size, and the time that the cost model expects. */
int gyre_cli_show_choices(char **argv);

/* Every variable, its value and where the value came from. */
int gyre_cli_show_env(char **argv);

/* The samples of an epoch that each rank gets. */
int gyre_cli_show_sampler(char **argv);

/* The schedule of an operation as a table, as JSON, or played on numbers. */
int gyre_cli_show_schedule(char **argv);

#endif
