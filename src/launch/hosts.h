/* Reaching another machine: which command starts something there that has this machine's folder,
 * settings and tool. */
#ifndef GYRE_LAUNCH_HOSTS_H
#define GYRE_LAUNCH_HOSTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

#define GYRE_SSH_WORDS_MAX 16 /* of GYRE_SSH */

/* Writes "cd FOLDER && exec env NAME=VALUE … sh -c 'exec "$0" "$@"' TOOL", to which words of the
 * tool's are added. */
void gyre_host_put_tool(FILE *out);

/* Adds any text as one word for a POSIX shell. */
void gyre_host_put_word(FILE *out, const char *word);

bool gyre_host_is_here(const char *host);

/* The words of a program that runs `command` on the host: ssh, or a shell on this machine itself.
 * They point into the struct, to `host` and to `command`. GYRE_INVALID: GYRE_SSH is too long. */
struct gyre_host_words {
    char ssh[512];
    char *argv[GYRE_SSH_WORDS_MAX + 3];
};
int gyre_host_build_words(struct gyre_host_words *words, char *host, char *command,
                          struct gyre_trouble *trouble);

#endif
