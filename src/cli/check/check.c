/* gyre check: proves a schedule from a file, or names the rank, the round and the step of its first
 * defect. Tested by tests/program/cli/check.c. */
#include "cli/commands.h"

#include "cli/check/listed.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "collectives/prove/print.h"
#include "data/files/file.h"

#include <stdio.h>

enum { HTML, HELP, FLAGS };

static const struct gyre_flag check_flags[FLAGS] = {
    [HTML] = {"html", 0, "FILE", "write a page that plays it, up to the defect"},
    [HELP] = {"help", 'h', NULL, "this page"},
};

static void print_check_help(void)
{
    puts(
        "usage: gyre check FILE [FLAGS]\n\n"
        "Proves a schedule in the form of `gyre show --json`, or names rank, round and step of its "
        "first defect.\n\nflags:");
    gyre_flags_print(check_flags, FLAGS);
    puts("\nexit code: 0 it is proved, 1 it has a defect, 2 it is no schedule\n\n"
         "example: gyre show all_reduce --algo ring -n 3 --json > ring.json\n"
         "         gyre check ring.json");
}

/* Flags stand before the file and behind it. */
static int read_words(char **argv, const char **word, const char **file,
                      struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = argv, .flag = check_flags, .count = FLAGS};
    int status = gyre_flags_read_around(&flags, word, file, "one file", trouble);
    if (status)
        return status;
    if (*file == NULL && word[HELP] == NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "which file? `gyre show all_reduce --json` prints its form");
    return 0;
}

static int answer_check(const struct gyre_listed *listed, const char *file, const char *page,
                        struct gyre_trouble *trouble)
{
    struct gyre_trouble defect = {0};
    int status = page != NULL ? gyre_listed_page(listed, page, trouble) : 0;
    if (status != 0)
        return status;
    status = gyre_listed_prove(listed, &defect);
    if (status != 0)
        return gyre_trouble_set(trouble, status, "%s: %s", file, defect.text);
    printf("%s: ", file);
    gyre_print_title(stdout, gyre_listed_algorithm(listed), &listed->slice);
    printf("proved: %s\n", gyre_verb_facts[listed->slice.verb].ending);
    return 0;
}

int gyre_cli_check(char **argv)
{
    const char *word[FLAGS] = {0}, *path = NULL;
    struct gyre_trouble trouble = {0};
    struct gyre_file file = {0};
    struct gyre_listed listed = {0};
    gyre_cli_tell_strangers("check");
    int status = read_words(argv, word, &path, &trouble);
    if (status == 0 && word[HELP] != NULL)
        return print_check_help(), 0;
    if (status == 0)
        status = gyre_file_map(path, &file, &trouble);
    if (status == 0)
        status = gyre_listed_read(&listed, path, file.data, file.length, &trouble);
    if (status == 0)
        status = answer_check(&listed, path, word[HTML], &trouble);
    gyre_listed_deinit(&listed);
    gyre_file_unmap(&file);
    return status == 0 ? 0 : gyre_cli_fail("check", status, &trouble);
}
