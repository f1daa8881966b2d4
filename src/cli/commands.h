/* The tool's commands. Each gets the words after its name, NULL-terminated, and returns the exit
 * code. */
#ifndef GYRE_CLI_COMMANDS_H
#define GYRE_CLI_COMMANDS_H

int gyre_cli_run(char **argv);
int gyre_cli_train(char **argv);
int gyre_cli_predict(char **argv);
int gyre_cli_show(char **argv);
int gyre_cli_check(char **argv);
int gyre_cli_tune(char **argv);
int gyre_cli_inspect(char **argv);
int gyre_cli_doctor(char **argv);
int gyre_cli_plan(char **argv);
int gyre_cli_why(char **argv);
int gyre_cli_top(char **argv);
int gyre_cli_dump(char **argv);
int gyre_cli_trace(char **argv);

/* The part of `gyre show` whose first word is a file: a schedule of the user's own. */
int gyre_cli_show_file(char **argv);

#endif
