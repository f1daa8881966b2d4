/* gyre plan: what a cluster that one does not have would take for an operation, or for a step of a
 * training. The schedules that communicators run are rehearsed, or, where that takes too long,
 * priced by the formula. Tested by tests/program/cli/plan.sh. */
#include "cli/commands.h"

#include "cli/common.h"
#include "cli/plan/inside.h"

#include <stdio.h>

static void print_plan_help(void)
{
    puts("usage: gyre plan [FLAGS]\n\n"
         "Says what an operation, or a step of a training, would take on a cluster: time by "
         "algorithm, where it goes, memory and connections, what one slow link costs.\n"
         "A time with a ~ is the formula's: to rehearse the schedule would take too long.\n\n"
         "flags:");
    gyre_flags_print(gyre_plan_flags, FLAGS);
    puts("\nPrices inside a node are those of GYRE_TUNE_FILE, or the built-in ones.\n"
         "\nexamples: gyre plan --nodes 128 --ranks 8 --link 100G:5us --size 1G\n"
         "          gyre plan --nodes 16 --ranks 4 --link 25G:10us --slow 3:10G --size 64M\n"
         "          gyre plan --nodes 32 --link 10G:20us --model 8x1024 --compute 20ms");
}

int gyre_cli_plan(char **argv)
{
    static struct gyre_plan_answer answer;
    struct gyre_plan_asked asked = {0};
    struct gyre_flags flags = {.argv = argv, .flag = gyre_plan_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    gyre_cli_tell_strangers("plan");
    int status = gyre_flags_read_only(&flags, asked.word, &trouble);
    if (status == 0 && asked.word[HELP] != NULL)
        return print_plan_help(), 0;
    if (status == 0)
        status = gyre_plan_settle(&asked, &trouble);
    if (status == 0)
        status = gyre_plan_answer(&asked, &answer, &trouble);
    if (status == 0 && asked.word[SIMULATE] != NULL)
        status = gyre_plan_simulate(&asked, &answer, &trouble);
    if (status == 0)
        (asked.word[JSON] != NULL ? gyre_plan_print_json : gyre_plan_print)(&asked, &answer);
    gyre_plan_forget(&asked);
    return status == 0 ? 0 : gyre_cli_fail("plan", status, &trouble);
}
