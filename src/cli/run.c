/* gyre run: torchrun's words and a few of our own. */
#include "cli/commands.h"
#include "cli/run_flags.h"

#include <stdio.h>

const struct gyre_flag gyre_run_flags[FLAGS] = {
    [NPROC] = {"nproc-per-node", 'n', "COUNT",
               "ranks on this node, or `auto` for one per core (1)"},
    [SIMULATE] = {"simulate-nodes", 0, "LAYOUT", "play several nodes here: 2x2, 4+2"},
    [HOSTS] = {"hosts", 0, "LIST", "start over ssh: a:4,b:2"},
    [NNODES] = {"nnodes", 0, "COUNT", "nodes; run this command once on each (1)"},
    [NODE_RANK] = {"node-rank", 0, "INDEX", "which of them this is (0)"},
    [ADDR] = {"master-addr", 0, "HOST", "where rank 0 is reached (127.0.0.1)"},
    [PORT] = {"master-port", 0, "PORT", "its port (29500; a free one on one node)"},
    [BIND] = {"bind", 0, NULL, "give each rank cores of its own"},
    [BACKEND] = {"backend", 0, "NAME",
                 "how ranks reach each other: auto, shm, tcp or verbs (GYRE_TRANSPORT, or auto)"},
    [DEVICES] = {"devices", 0, "LIST",
                 "CUDA devices of each node: local rank i takes entry i; 2,4,7"},
    [LOG_DIR] = {"log-dir", 0, "FOLDER",
                 "also write each rank's output to FOLDER/rank-N.out, .err"},
    [NO_PREFIX] = {"no-prefix", 0, NULL, "no \"[rank] \" before each line"},
    [JOB] = {"job", 0, "NAME", "the job's name (random)"},
    [RDZV_ID] = {"rdzv-id", 0, "NAME", NULL},
    [STANDALONE] = {"standalone", 0, NULL, NULL},
    [NODE] = {"node", 0, "INDEX", NULL},
    [HELP] = {"help", 'h', NULL, "this page"},
};

static int read_words(char ***argv, struct gyre_run_words *words, struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = *argv, .flag = gyre_run_flags, .count = FLAGS};
    int index;
    while ((index = gyre_flags_next(&flags, trouble)) >= 0)
        words->of[index] = flags.value ? flags.value : "yes";
    *argv = flags.argv;
    return index == GYRE_FLAGS_END ? 0 : index;
}

int gyre_cli_run(char **argv)
{
    static struct gyre_hosts hosts;
    static struct gyre_launch_options options;
    struct gyre_run_words words = {0};
    struct gyre_trouble trouble = {0};
    int status = read_words(&argv, &words, &trouble);
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
            "  gyre run --nnodes 2 --node-rank 1 --master-addr a -n 2 ./train    nodes may differ\n"
            "\nEnds with the exit code of the first rank that failed, and a last line that names "
            "it.");
        return 0;
    }
    options.program = argv;
    if (!status)
        status = gyre_run_settle(&words, &hosts, &options, &trouble);
    if (!status)
        status = gyre_launch(&options, &trouble);
    return status < 0 ? gyre_cli_fail("run", status, &trouble) : status;
}
