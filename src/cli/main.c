/* gyre: one tool, a table of commands. A command parses, calls its room and returns an exit code;
 * nothing else. Tested by tests/program/cli/cli.c. */
#include "cli/commands.h"
#include "cli/common.h"

#include "base/env.h"
#include "base/status.h"
#include "data/files/cut_short.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(char **argv);
    const char *help;
};

static int help(char **argv);
static int version(char **argv);

static const struct command commands[] = {
    {"run", gyre_cli_run, "start a program as n ranks, here or on several machines"},
    {"train", gyre_cli_train, "train a model over the ranks of a job"},
    {"predict", gyre_cli_predict, "say what a trained model makes of data"},
    {"show", gyre_cli_show,
     "print a collective's schedule, what is chosen when, or the environment"},
    {"check", gyre_cli_check, "prove a schedule from a file, or name its first defect"},
    {"plan", gyre_cli_plan, "say what an operation or a step would take on a cluster, and why"},
    {"tune", gyre_cli_tune, "measure what links and folds cost here, for choosing"},
    {"inspect", gyre_cli_inspect, "list the tensors of a file of weights, or check checkpoints"},
    {"doctor", gyre_cli_doctor,
     "check this machine up before a job: cores, limits, network, devices, key"},
    {"why", gyre_cli_why, "say why a job stands still, has failed or is slow"},
    {"top", gyre_cli_top, "show the ranks of a job that runs, once a second"},
    {"dump", gyre_cli_dump, "print the last operations of every rank as JSON"},
    {"trace", gyre_cli_trace, "show when each lane of a job's ranks moved, folded and waited"},
    {"help", help, "this page; `gyre help COMMAND` for one command"},
    {"version", version, "the version of this tool"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int version(char **argv)
{
    (void)argv;
    printf("gyre %d.%d.%d\n", GYRE_VERSION_MAJOR, GYRE_VERSION_MINOR, GYRE_VERSION_PATCH);
    return 0;
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i].name))
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    struct gyre_trouble trouble = {0};
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = gyre_nearest_word(name, names, COMMANDS);
    if (near)
        gyre_trouble_set(&trouble, GYRE_INVALID, "unknown command '%s'; did you mean 'gyre %s'?",
                         name, near);
    else
        gyre_trouble_set(&trouble, GYRE_INVALID,
                         "unknown command '%s'; `gyre help` lists the commands", name);
    return gyre_cli_fail("", GYRE_INVALID, &trouble);
}

static int help(char **argv)
{
    static char *ask[] = {"--help", NULL};
    const struct command *command = *argv ? find_command(*argv) : NULL;
    if (*argv && !command)
        return unknown_command(*argv);
    if (command && command->run != help && command->run != version)
        return command->run(ask);
    puts("Gyre: collective communication without NCCL and without MPI.\n\nusage: gyre COMMAND "
         "[FLAGS]\n");
    for (int i = 0; i < COMMANDS; i++)
        printf("  %-10s%s\n", commands[i].name, commands[i].help);
    puts("\nexamples: gyre train --data table.csv --scale --validation 0.2 --ranks 2 --save run1\n"
         "          gyre run -n 4 build/examples/allreduce\n"
         "          gyre show all_reduce --algo ring -n 5");
    return 0;
}

int main(int argc, char **argv)
{
    gyre_cut_short_tell();
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of files fails and is told */
    if (argc < 2)
        return help(argv + argc), 2;
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        name = "version";
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    const struct command *command = find_command(name);
    return command ? command->run(argv + 2) : unknown_command(name);
}
