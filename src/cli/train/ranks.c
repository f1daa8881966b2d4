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

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST 512

static bool is_ranks(const char *word)
{
    return strncmp(word, "--ranks", 7) == 0 && (!word[7] || word[7] == '=');
}

static bool cores_are_free(int64_t ranks)
{
    static struct gyre_cores cores;
    gyre_cores_find(&cores);
    return gyre_cores_are_free(&cores, (int)ranks, gyre_cores_busy());
}

int gyre_cli_train_ranks(const char *ranks, char **argv, struct gyre_trouble *trouble)
{
    char tool[4096],
        *word[WORDS_MOST] = {tool, "run", "-n", (char *)(uintptr_t)ranks, "--no-prefix"};
    int64_t count;
    int words = 5, status = gyre_parse_int("--ranks", ranks, 1, 4096, &count, trouble);
    if (!status)
        status = gyre_cli_path(tool, sizeof tool, trouble);
    if (status)
        return status;
    if (cores_are_free(count))
        word[words++] = "--bind";
    word[words++] = tool;
    word[words++] = "train";
    for (; *argv && words < WORDS_MOST - 1; argv++) {
        if (!is_ranks(*argv))
            word[words++] = *argv;
        else if (!strchr(*argv, '=') && argv[1])
            argv++;
    }
    if (*argv)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "more than %d words; --config FILE takes any", WORDS_MOST - 9);
    if (isatty(STDERR_FILENO) && ttyname(STDERR_FILENO))
        setenv("GYRE_TERMINAL", ttyname(STDERR_FILENO), 1);
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* `gyre run` would take all cores of a rank */
    execv(tool, word);
    return gyre_trouble_set(trouble, -errno, "%s: %s", tool, strerror(errno));
}
