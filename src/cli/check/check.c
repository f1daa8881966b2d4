/* gyre check: proves a schedule from a file, or names the rank, the round and the step of its first
 * defect. Tested by tests/program/cli/check.c. */
#include "cli/commands.h"

#include "cli/check/listed.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "cli/show/page/page.h"
#include "collectives/prove/check.h"
#include "collectives/prove/print.h"
#include "data/files/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    int index;
    do {
        if (*flags.argv != NULL && **flags.argv != '-' && *file == NULL)
            *file = *flags.argv++;
        index = gyre_flags_next(&flags, trouble);
        if (index >= 0)
            word[index] = flags.value != NULL ? flags.value : "yes";
    } while (index >= 0);
    if (index != GYRE_FLAGS_END)
        return index;
    if (*flags.argv != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID, "unexpected word '%s'; one file is expected",
                                *flags.argv);
    if (*file == NULL && word[HELP] == NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "which file? `gyre show all_reduce --json` prints its form");
    return 0;
}

static int prove(const struct gyre_listed *listed, struct gyre_trouble *trouble)
{
    struct gyre_slice *of_rank = calloc(listed->slice.n, sizeof *of_rank);
    if (of_rank == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u ranks", listed->slice.n);
    for (uint32_t rank = 0; rank < listed->slice.n; rank++) {
        of_rank[rank] = listed->slice;
        of_rank[rank].rank = rank;
    }
    int status = gyre_check_ranks(gyre_listed_algorithm(listed), of_rank, trouble);
    free(of_rank);
    return status == GYRE_INVALID ? GYRE_CORRUPT : status;
}

/* Writes the page. It plays the defect, which proving tells: its own story of it is dropped. */
static int write_check_page(const struct gyre_listed *listed, const char *path,
                            struct gyre_trouble *trouble)
{
    const struct gyre_page_schedule schedule = {gyre_listed_algorithm(listed), listed->slice};
    struct gyre_trouble defect = {0};
    char *text = NULL;
    size_t length = 0;
    if (listed->slice.n > GYRE_PAGE_RANKS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--html draws at most %d ranks, not %u",
                                GYRE_PAGE_RANKS_MAX, listed->slice.n);
    FILE *out = open_memstream(&text, &length);
    int status = out != NULL ? gyre_page_write(out, &schedule, 1, &defect) : -ENOMEM;
    if (out != NULL && fclose(out) != 0)
        status = -ENOMEM;
    const struct iovec part = {text, length};
    if (status == -ENOMEM)
        gyre_trouble_set(trouble, status, "no memory for a page of %u ranks", listed->slice.n);
    else
        status = gyre_file_replace(path, &part, 1, trouble);
    free(text);
    return status;
}

static int answer_check(const struct gyre_listed *listed, const char *file, const char *page,
                        struct gyre_trouble *trouble)
{
    struct gyre_trouble defect = {0};
    int status = page != NULL ? write_check_page(listed, page, trouble) : 0;
    if (status != 0)
        return status;
    status = prove(listed, &defect);
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
