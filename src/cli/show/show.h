/* gyre show and its parts. Each gets the words behind its own, NULL-terminated, prints to standard
 * output and returns the exit code: 0; 2 with one message on standard error for bad input; 1 for
 * anything else. */
#ifndef GYRE_CLI_SHOW_SHOW_H
#define GYRE_CLI_SHOW_SHOW_H

int gyre_cli_show(char **argv); /* by the first word: choices, env, sampler, or an operation */
int gyre_cli_show_choices(char **argv); /* what is chosen for which size, and what it would take */
int gyre_cli_show_env(char **argv);     /* every knob, its value and where that came from */
int gyre_cli_show_sampler(char **argv); /* which samples of an epoch go to which rank */

#endif
