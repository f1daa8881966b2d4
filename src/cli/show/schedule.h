/* gyre show OPERATION: a schedule as a table, as JSON, or played on numbers. */
#ifndef GYRE_CLI_SHOW_SCHEDULE_H
#define GYRE_CLI_SHOW_SCHEDULE_H

/* Gets the words after `show`, NULL-terminated; prints to standard output. Returns the exit code:
 * 0; 2 with one message on standard error for bad input; 1 for anything else. */
int gyre_cli_show_schedule(char **argv);

#endif
