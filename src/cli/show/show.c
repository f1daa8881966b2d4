/* gyre show: the first word names the part or a file; any other word is an operation. Tested by
 * tests/program/cli/show.c. */
#include "cli/commands.h"
#include "cli/common.h"

#include "cli/show/parts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* No operation and no part has a dot or a slash in its name. */
static bool names_file(const char *word)
{
    return word && *word != '-' && strpbrk(word, "./");
}

int gyre_cli_show(char **argv)
{
    gyre_cli_tell_strangers("show");
    if (*argv && !strcmp(*argv, "choices"))
        return gyre_cli_show_choices(argv + 1);
    if (*argv && !strcmp(*argv, "env"))
        return gyre_cli_show_env(argv + 1);
    if (*argv && !strcmp(*argv, "sampler"))
        return gyre_cli_show_sampler(argv + 1);
    if (names_file(*argv))
        return gyre_cli_show_file(argv);
    int code = gyre_cli_show_schedule(argv);
    for (; *argv; argv++)
        if (!strcmp(*argv, "--help") || !strcmp(*argv, "-h"))
            return puts("\nalso: gyre show choices   what is chosen for which size, and why\n"
                        "      gyre show env       every variable, its value and its origin\n"
                        "      gyre show sampler   which samples of a data set go to which rank\n"
                        "      gyre show FILE      a schedule of your own: print, play or run it"),
                   code;
    return code;
}
