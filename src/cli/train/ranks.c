/* gyre train --ranks: becomes `gyre run` over the same words without --ranks. The ranks' output
 * comes through a pipe, so rank 0 is told of the terminal.
 *
 * Where every rank can have idle cores of its own it gets them: ranks that wander lose their
 * caches, and a step waits for the slowest. On a busy machine ranks that are bound would wait for
 * others in the cores' queues, one after the other. Tested by tests/program/train/train.c. */
#include "cli/train/ranks.h"

#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "launch/cores.h"
#include "train/early.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST     512
#define RANKS_PER_CORE 64

static bool is_ranks(const char *word)
{
    return strncmp(word, "--ranks", 7) == 0 && (!word[7] || word[7] == '=');
}

/* So many ranks take minutes to meet, and do nothing but give way to each other. */
static int check_cores(const struct gyre_cores *cores, int ranks, struct gyre_trouble *trouble)
{
    if (ranks <= cores->count * RANKS_PER_CORE)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "--ranks %d: this machine has %d core%s for them, and at most %d "
                            "ranks train on a core; `gyre run --hosts` starts ranks on more "
                            "machines",
                            ranks, cores->count, cores->count > 1 ? "s" : "", RANKS_PER_CORE);
}

/* By mistake: every rank around would train a job of its own. */
static int refuse_inside_job(int ranks, struct gyre_trouble *trouble)
{
    char launcher[32];
    int around = gyre_cli_job_around(launcher);
    if (around < 2 && !(around && strcmp(launcher, "gyre run") == 0))
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "--ranks %d: this is a rank of a job of %d already (by %s), and each "
                            "of them would start %d more: leave --ranks out to train over the %d, "
                            "or start `gyre train --ranks %d` by itself",
                            ranks, around, launcher, ranks, around, ranks);
}

int gyre_cli_train_check_start(int ranks, const struct gyre_train_options *options,
                               const struct gyre_cores *cores, struct gyre_trouble *trouble)
{
    int status = refuse_inside_job(ranks, trouble);
    if (!status)
        status = gyre_train_check_ranks(options, ranks, trouble);
    return status ? status : check_cores(cores, ranks, trouble);
}

struct launch_command {
    char tool[4096];
    int words;
    char *word[WORDS_MOST];
};

static void add_word(struct launch_command *command, const char *word)
{
    if (command->words < WORDS_MOST - 1)
        command->word[command->words++] = (char *)(uintptr_t)word;
}

static void add_flag(struct launch_command *command, const char *flag, const char *value)
{
    if (value) {
        add_word(command, flag);
        add_word(command, value);
    }
}

static void add_launcher(struct launch_command *command, const struct gyre_cli_train_start *start,
                         int64_t elastic, bool bind)
{
    static char least[24];
    add_word(command, command->tool);
    add_word(command, "run");
    add_flag(command, "-n", start->ranks);
    add_flag(command, "--restarts", start->restarts);
    snprintf(least, sizeof least, "%" PRId64, elastic);
    add_flag(command, "--elastic", elastic ? least : NULL);
    add_word(command, "--no-prefix");
    if (bind)
        add_word(command, "--bind");
}

static int add_training(struct launch_command *command, const struct gyre_cli_train_start *start,
                        char **argv, struct gyre_trouble *trouble)
{
    add_word(command, command->tool);
    add_word(command, "train");
    add_flag(command, "--typed", program_invocation_name);
    add_flag(command, "--measured", start->measured);
    for (; *argv && command->words < WORDS_MOST - 1; argv++) {
        if (!is_ranks(*argv))
            add_word(command, *argv);
        else if (!strchr(*argv, '=') && argv[1])
            argv++;
    }
    return *argv ? gyre_trouble_set(trouble, GYRE_INVALID,
                                    "more than %d words; --config FILE takes any", WORDS_MOST - 15)
                 : 0;
}

int gyre_cli_train_ranks(const struct gyre_cli_train_start *start,
                         const struct gyre_train_options *options, char **argv,
                         struct gyre_trouble *trouble)
{
    static struct gyre_cores cores;
    static struct launch_command command;
    int64_t count;
    int status =
        gyre_parse_int("--ranks", start->ranks, 1, GYRE_CLI_TRAIN_RANKS_MOST, &count, trouble);
    gyre_cores_find(&cores);
    if (!status)
        status = gyre_cli_train_check_start((int)count, options, &cores, trouble);
    if (!status)
        status = gyre_cli_path(command.tool, sizeof command.tool, trouble);
    if (status)
        return status;
    add_launcher(&command, start, options->elastic,
                 gyre_cores_are_free(&cores, (int)count, gyre_cores_busy()));
    if ((status = add_training(&command, start, argv, trouble)))
        return status;
    if (isatty(STDOUT_FILENO) && ttyname(STDOUT_FILENO))
        setenv("GYRE_TERMINAL", ttyname(STDOUT_FILENO), 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* `gyre run` would take all cores of a rank */
    execv(command.tool, command.word);
    return gyre_trouble_set(trouble, -errno, "%s: %s", command.tool, strerror(errno));
}
