/* gyre show FILE: a schedule of the user's own, printed, on a page, or run by ranks of this
 * machine. The ranks are this tool again, under `gyre run`. Tested by tests/program/cli/own.sh. */
#include "cli/commands.h"

#include "cli/check/listed.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "collectives/prove/print.h"
#include "data/files/file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MOST 64 /* that one machine starts to show something */

enum { RUN, HTML, JSON, BACKEND, AS_RANK, HELP, FLAGS };

static const struct gyre_flag played_flags[FLAGS] = {
    [RUN] = {"run", 0, NULL,
             "run it on ranks of this machine: its numbers, its time beside ring's"},
    [HTML] = {"html", 0, "FILE", "write a page that plays it"},
    [JSON] = {"json", 0, NULL, "print it as JSON instead of a table"},
    [BACKEND] = {"backend", 0, "NAME", "with --run: TRANSPORTS (GYRE_TRANSPORT)"},
    [AS_RANK] = {"as-rank", 0, NULL, NULL}, /* what start_own_ranks() says to the ranks */
    [HELP] = {"help", 'h', NULL, "this page"},
};

static void print_played_help(void)
{
    puts("usage: gyre show FILE [FLAGS]\n\n"
         "Shows a schedule in the form of `gyre show --json`. What has a defect is not run; `gyre "
         "check FILE` names it.\n\nflags:");
    gyre_flags_print(played_flags, FLAGS);
    puts("\nexample: gyre show all_reduce --algo ring -n 3 --json > mine.json\n"
         "         gyre show mine.json --run\n"
         "         gyre show mine.json --html mine.html");
}

/* Refuses a schedule that real ranks cannot run, though it may be right. */
static int refuse_run(const struct gyre_listed *listed, const char *file,
                      struct gyre_trouble *trouble)
{
    const struct gyre_slice *s = &listed->slice;
    if (s->n < 2 || s->n > RANKS_MOST)
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s: --run starts 2 to %d ranks, not %u",
                                file, RANKS_MOST, s->n);
    if (listed->at != NULL || listed->count != NULL || s->in_place)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: --run takes equal blocks and two buffers", file);
    if (s->element != 1 && s->element != 2 && s->element != 4 && s->element != 8)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: --run takes elements of 1, 2, 4 or 8 bytes, not %u", file,
                                s->element);
    return 0;
}

static int start_own_ranks(const struct gyre_listed *listed, const char *file,
                           struct gyre_trouble *trouble)
{
    char tool[4096], ranks[16];
    int code = 1;
    int status = gyre_cli_path(tool, sizeof tool, trouble);
    if (status != 0)
        return status;
    snprintf(ranks, sizeof ranks, "%u", listed->slice.n);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl(tool, tool, "run", "-n", ranks, "--no-prefix", tool, "show", file, "--run",
              "--as-rank", (char *)NULL);
        _exit(127);
    }
    if (child > 0 && waitpid(child, &code, 0) == child)
        code = WIFEXITED(code) ? WEXITSTATUS(code) : 1;
    return code == 0 ? 0
                     : gyre_trouble_set(trouble, -EIO,
                                        "%s: its %s ranks failed; what they said is "
                                        "above",
                                        file, ranks);
}

/* A schedule with a defect might wait forever, or write where it must not. */
static int run_for_real(struct gyre_listed *listed, const char *file, bool as_rank,
                        struct gyre_trouble *trouble)
{
    struct gyre_trouble defect = {0};
    int status = refuse_run(listed, file, trouble);
    if (status != 0)
        return status;
    status = gyre_listed_prove(listed, &defect);
    if (status != 0)
        return gyre_trouble_set(trouble, status, "%s is not run, for it has a defect: %s", file,
                                defect.text);
    return as_rank ? gyre_listed_run(listed, trouble) : start_own_ranks(listed, file, trouble);
}

/* A page of a defect is a page. */
static int write_own_page(const struct gyre_listed *listed, const char *file, const char *page,
                          struct gyre_trouble *trouble)
{
    struct gyre_trouble defect = {0};
    int status = gyre_listed_page(listed, page, trouble);
    if (status != 0)
        return status;
    printf("%s: %s by %s, %u ranks: open it in a browser\n", page,
           gyre_verb_word[listed->slice.verb], listed->name, listed->slice.n);
    status = gyre_listed_prove(listed, &defect);
    return status == 0 ? 0 : gyre_trouble_set(trouble, status, "%s: %s", file, defect.text);
}

static int answer_played(struct gyre_listed *listed, const char *file, const char *const *word,
                         struct gyre_trouble *trouble)
{
    const struct gyre_algorithm *algorithm = gyre_listed_algorithm(listed);
    const struct gyre_print_ranks all = {0, listed->slice.n};
    int status = gyre_cli_backend(word[BACKEND], trouble);
    if (status != 0)
        return status;
    if (word[RUN] != NULL)
        return run_for_real(listed, file, word[AS_RANK] != NULL, trouble);
    if (word[HTML] != NULL)
        return write_own_page(listed, file, word[HTML], trouble);
    status = word[JSON] != NULL ? gyre_print_json(stdout, algorithm, &listed->slice, all)
                                : gyre_print_table(stdout, algorithm, &listed->slice, all);
    return status == 0 ? 0
                       : gyre_trouble_set(trouble, status, "no memory for a schedule of %u ranks",
                                          listed->slice.n);
}

int gyre_cli_show_file(char **argv)
{
    const char *path = *argv, *word[FLAGS] = {0};
    struct gyre_flags flags = {.argv = argv + 1, .flag = played_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    struct gyre_file file = {0};
    struct gyre_listed listed = {0};
    int status = gyre_flags_read_only(&flags, word, &trouble);
    if (status == 0 && word[HELP] != NULL)
        return print_played_help(), 0;
    if (status == 0)
        status = gyre_file_map(path, &file, &trouble);
    if (status == 0)
        status = gyre_listed_read(&listed, path, file.data, file.length, &trouble);
    if (status == 0)
        status = answer_played(&listed, path, word, &trouble);
    gyre_listed_deinit(&listed);
    gyre_file_unmap(&file);
    return status == 0 ? 0 : gyre_cli_fail("show", status, &trouble);
}
