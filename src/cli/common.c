/* Words that every command says alike. Tested by tests/program/cli/cli.c. */
#include "cli/common.h"

#include "base/env.h"
#include "base/status.h"
#include "transport/link/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble)
{
    fprintf(stderr, "gyre%s%s: %s\n", *command ? " " : "", command, trouble->text);
    return status == GYRE_INVALID || status == GYRE_REFUSED ? 2 : 1;
}

int gyre_cli_backend(const char *name, struct gyre_trouble *trouble)
{
    const char *names[GYRE_LINK_WORDS_MOST];
    int index, count = gyre_link_words(names);
    int status = name ? gyre_parse_word("--backend", name, names, count, &index, trouble) : 0;
    if (name && !status)
        setenv("GYRE_TRANSPORT", names[index], 1);
    return status;
}

int gyre_cli_path(char *path, size_t room, struct gyre_trouble *trouble)
{
    ssize_t length = readlink("/proc/self/exe", path, room - 1);
    if (length < 0)
        return gyre_trouble_set(trouble, -errno, "where am I? /proc/self/exe: %s", strerror(errno));
    path[length] = '\0';
    return 0;
}
