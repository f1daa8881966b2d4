/* gyre tune: measures what links and folds cost here, for choosing.
 *
 * As a rank of any launcher it measures the job that it is in. By itself, with -n, it starts that
 * many ranks on this machine, first over shared memory, then over TCP. Tested by
 * tests/program/cli/tune.c. */
#include "cli/tune/inside.h"

#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS, OUT, HELP, FLAGS };

static const struct gyre_flag tune_flags[FLAGS] = {
    [RANKS] = {"ranks", 'n', "COUNT", "start so many ranks here; without it, be one of a job's"},
    [OUT] = {"out", 'o', "FILE", "where to write (gyre.tune); prices in it of other links stay"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

static void print_tune_help(void)
{
    puts("usage: gyre tune [FLAGS]\n");
    gyre_flags_print(tune_flags, FLAGS);
    puts("\nThe file is used by jobs that name it in GYRE_TUNE_FILE; all their ranks need the "
         "same.\n"
         "\nexamples: gyre tune -n 4 --out my.tune\n"
         "          gyre run --hosts a:4,b:4 gyre tune --out my.tune\n"
         "          GYRE_TUNE_FILE=my.tune gyre show choices -n 4 --transport tcp");
}

/* -- one rank ---------------------------------------------------------------------------------- */

static void tell_fit(const struct gyre_measured *measured, const char *path)
{
    printf("gyre tune: %d ranks on %d node%s:", measured->ranks, measured->nodes,
           measured->nodes > 1 ? "s" : "");
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++)
        if (measured->kinds & 1u << kind)
            printf(" %s", gyre_link_kind_name[kind]);
    if (!*measured->load)
        printf(" measured, the model is off by %d %% on average; written to %s\n",
               measured->error_percent, path);
    else
        printf(" measured under load; written to %s\n", path);
    fflush(stdout);
    if (*measured->load)
        fprintf(stderr,
                "gyre tune: warning: while it measured, %s: these are prices of a loaded machine; "
                "measure again when it is quiet\n",
                measured->load);
}

static int be_tuning_rank(const char *path, struct gyre_trouble *trouble)
{
    struct gyre_measured measured;
    int rank;
    int status = gyre_tune_measure(path, &measured, &rank, trouble);
    if (status || rank)
        return status;
    status = gyre_tune_write(path, &measured, trouble);
    if (!status)
        tell_fit(&measured, path);
    return status;
}

/* -- many -------------------------------------------------------------------------------------- */

static int run_job(const char *tool, const char *ranks, const char *transport, const char *path)
{
    int code = 1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setenv("GYRE_TRANSPORT", transport, 1);
        execl(tool, tool, "run", "-n", ranks, "--no-prefix", tool, "tune", "--out", path,
              (char *)NULL);
        _exit(127);
    }
    if (child > 0 && waitpid(child, &code, 0) == child)
        code = WIFEXITED(code) ? WEXITSTATUS(code) : 1;
    return code;
}

static int start_ranks(const char *ranks, const char *path, struct gyre_trouble *trouble)
{
    static const char *const transports[] = {"shm", "tcp"};
    char tool[4096];
    int64_t count;
    int status = gyre_parse_int("--ranks", ranks, 2, 64, &count, trouble);
    if (!status)
        status = gyre_tune_check(path, trouble);
    if (!status)
        status = gyre_cli_path(tool, sizeof tool, trouble);
    if (status)
        return status;
    for (int i = 0; i < 2; i++)
        if (run_job(tool, ranks, transports[i], path))
            return gyre_trouble_set(
                trouble, -EIO, "the ranks over %s failed; what they said is above", transports[i]);
    return 0;
}

int gyre_cli_tune(char **argv)
{
    struct gyre_flags flags = {.argv = argv, .flag = tune_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    const char *word[FLAGS] = {[OUT] = "gyre.tune"};
    int status = gyre_flags_read_only(&flags, word, &trouble);
    if (!status && word[HELP])
        return print_tune_help(), 0;
    if (!status)
        status = word[RANKS] ? start_ranks(word[RANKS], word[OUT], &trouble)
                             : be_tuning_rank(word[OUT], &trouble);
    return status ? gyre_cli_fail("tune", status, &trouble) : 0;
}
