/* gyre run: torchrun's words and a few of our own. Tested by tests/program/cli/cli.c. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/run_flags.h"

#include <stdio.h>

static int read_run_words(char ***argv, struct gyre_run_words *words, struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = *argv, .flag = gyre_run_flags, .count = FLAGS};
    int status = gyre_flags_read(&flags, words->of, trouble);
    *argv = flags.argv;
    return status;
}

int gyre_cli_run(char **argv)
{
    static struct gyre_hosts hosts;
    static struct gyre_launch_options options;
    struct gyre_run_words words = {0};
    struct gyre_trouble trouble = {0};
    int status = read_run_words(&argv, &words, &trouble);
    if (!status && words.of[HELP]) {
        puts("usage: gyre run [FLAGS] PROGRAM [WORDS]\n");
        gyre_flags_print(gyre_run_flags, FLAGS);
        puts(
            "\nexamples:\n"
            "  gyre run -n 4 ./train\n"
            "  gyre run --simulate-nodes 4+2 build/bench/allreduce\n"
            "  gyre run -n 3 --devices 2,4,7 ./train\n"
            "  gyre run --hosts a:4,b:2 ./train            GYRE_SSH=\"ssh -p 2222\" for another "
            "ssh\n"
            "  gyre run --hosts-file hosts --elastic 1:8 ./train    SIGHUP: hosts come and go\n"
            "  gyre run --nnodes 2 --node-rank 1 --master-addr a -n 2 ./train    nodes may differ\n"
            "  gyre run --join --job night7 --master-addr a --elastic 1:8 -n 2 ./train\n"
            "  gyre run -n 4 --restarts 3 ./train          GYRE_EPOCH tells a rank how often\n"
            "  gyre run -n 4 --elastic 2 ./train           survivors call gyre_shrink()\n"
            "  gyre run -n 4 --elastic 2 --restarts 3 ./train    lost ranks are started again\n"
            "\nEnds with the exit code of the first rank that failed, and a last line that names "
            "it. Exit\ncodes 2, 126 and 127 say that the program was used wrongly: it is not "
            "started again.");
        return 0;
    }
    options.program = argv;
    if (!words.of[NODE]) /* the launcher above has told them */
        gyre_cli_tell_strangers("run");
    if (!status)
        status = gyre_run_settle(&words, &hosts, &options, &trouble);
    if (!status)
        status = gyre_launch(&options, &trouble);
    return status < 0 ? gyre_cli_fail("run", status, &trouble) : status;
}
