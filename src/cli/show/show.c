/* gyre show: the first word names the part; any other word is an operation. Tested by
 * tests/program/cli/show.c. */
#include "cli/commands.h"
#include "cli/common.h"

#include "cli/show/parts.h"

#include <stdio.h>
#include <string.h>

int gyre_cli_show(char **argv)
{
    gyre_cli_tell_strangers("show");
    if (*argv && !strcmp(*argv, "choices"))
        return gyre_cli_show_choices(argv + 1);
    if (*argv && !strcmp(*argv, "env"))
        return gyre_cli_show_env(argv + 1);
    if (*argv && !strcmp(*argv, "sampler"))
        return gyre_cli_show_sampler(argv + 1);
    int code = gyre_cli_show_schedule(argv);
    for (; *argv; argv++)
        if (!strcmp(*argv, "--help") || !strcmp(*argv, "-h"))
            return puts("\nalso: gyre show choices   what is chosen for which size, and why\n"
                        "      gyre show env       every variable, its value and its origin\n"
                        "      gyre show sampler   which samples of a data set go to which rank"),
                   code;
    return code;
}
