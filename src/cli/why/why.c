/* gyre why, gyre dump and gyre top: what the ranks of a job do, or did last. Tested by
 * tests/program/cli/why.c. */
#include "cli/commands.h"

#include "cli/common.h"
#include "cli/flags.h"
#include "cli/why/lines.h"
#include "cli/why/metrics.h"
#include "cli/why/read.h"
#include "cli/why/watching.h"
#include "cli/why/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_EVERY_MS 200 /* while a call waits unusually long */
#define LOOKS_MOST    12

/* A command over the records of one job. */
struct asking {
    const char *name, *usage, *ending;
    const struct gyre_flag *flag;
    int flags;
};

/* Flags stand before the job and behind it. */
static int read_asking(const struct asking *asking, char **argv, const char **word,
                       const char **where, struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = argv, .flag = asking->flag, .count = asking->flags};
    int status = gyre_flags_read_around(&flags, word, where, "one job or one folder", trouble);
    if (status)
        return status;
    if (*where == NULL && word[asking->flags - 1] == NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "which job? Give its name, its id, the id of one of its processes, "
                                "or the folder of its dumps");
    return 0;
}

static void print_asking_help(const struct asking *asking)
{
    puts(asking->usage);
    gyre_flags_print(asking->flag, asking->flags);
    puts(asking->ending);
}

/* Says what was not used. */
static void tell_left_aside(const char *command, const struct gyre_trails *trails)
{
    if (trails->torn)
        fprintf(stderr, "gyre %s: %u file%s cannot be used: %s\n", command, trails->torn,
                trails->torn == 1 ? "" : "s", trails->text);
    if (trails->others)
        fprintf(stderr, "gyre %s: %u file%s of other jobs left aside\n", command, trails->others,
                trails->others == 1 ? "" : "s");
}

/* Reads flags and records. Positive: help was printed. */
static int open_asking(const struct asking *asking, char **argv, const char **word,
                       const char **where, struct gyre_trails *trails, struct gyre_trouble *trouble)
{
    gyre_cli_tell_strangers(asking->name);
    int status = read_asking(asking, argv, word, where, trouble);
    if (!status && word[asking->flags - 1]) {
        print_asking_help(asking);
        return 1;
    }
    if (!status)
        status = gyre_trails_read(trails, *where, trouble);
    if (!status)
        tell_left_aside(asking->name, trails);
    return status;
}

/* -- why --------------------------------------------------------------------------------------- */

/* Finds out what is wrong. Where a living job's call waits unusually long, more is known soon. */
static int find_reason(const char *where, struct gyre_trails *trails, struct gyre_finding *finding,
                       struct gyre_trouble *trouble)
{
    const struct timespec pause = {0, LOOK_EVERY_MS * 1000000};
    int status = 0;
    gyre_diagnose(trails, finding);
    for (int look = 0; !status && finding->unsettled && look < LOOKS_MOST; look++) {
        nanosleep(&pause, NULL);
        gyre_trails_free(trails);
        status = gyre_trails_read(trails, where, trouble);
        if (!status)
            gyre_diagnose(trails, finding);
    }
    return status;
}

int gyre_cli_why(char **argv)
{
    static const struct gyre_flag flag[] = {{"json", 'j', NULL, "one object instead of words"},
                                            {"help", 'h', NULL, "this page"}};
    static const struct asking asking = {
        .name = "why",
        .usage = "usage: gyre why DIR|JOB [FLAGS]\n\n"
                 "Says why a job stands still, has failed or is slow: which rank, in which call,\n"
                 "since when, and where all others are. DIR has the dumps that a job writes where\n"
                 "GYRE_DUMP names it; JOB is a job that runs here: its name (GYRE_JOB), its id or\n"
                 "the id of one of its processes. Only its owner may ask.\n\nflags:",
        .ending = "\nexit code: 0 nothing is wrong, 1 no answer, 2 wrong usage, 3 a rank is "
                  "missing or failed,\n           4 ranks called different operations, 5 a rank or "
                  "a link is slow\n\nexample: gyre why 4711",
        .flag = flag,
        .flags = 2};
    static const int code[GYRE_WHY_KINDS] = {
        [GYRE_WHY_KILLED] = 3,   [GYRE_WHY_STOPPED] = 3, [GYRE_WHY_MISSING] = 3,
        [GYRE_WHY_FAILED] = 3,   [GYRE_WHY_COUNT] = 4,   [GYRE_WHY_ORDER] = 4,
        [GYRE_WHY_MISMATCH] = 4, [GYRE_WHY_CORE] = 5,    [GYRE_WHY_LATE] = 5,
        [GYRE_WHY_LINK] = 5};
    const char *word[2] = {0}, *where = NULL;
    struct gyre_trouble trouble = {0};
    struct gyre_trails trails = {0};
    struct gyre_finding finding = {0};
    int status = open_asking(&asking, argv, word, &where, &trails, &trouble);
    if (!status)
        status = find_reason(where, &trails, &finding, &trouble);
    if (!status)
        (word[0] ? gyre_why_print_json : gyre_why_print)(&trails, &finding);
    gyre_trails_free(&trails);
    if (status < 0)
        return gyre_cli_fail("why", status, &trouble);
    return status ? 0 : code[finding.kind];
}

/* -- dump -------------------------------------------------------------------------------------- */

int gyre_cli_dump(char **argv)
{
    static const struct gyre_flag flag[] = {{"help", 'h', NULL, "this page"}};
    static const struct asking asking = {
        .name = "dump",
        .usage = "usage: gyre dump DIR|JOB [FLAGS]\n\n"
                 "Prints the last operations of every rank, a line of JSON each: of a folder of\n"
                 "dumps, or of a job that runs here.\n\nflags:",
        .ending = "\nexit code: 0 printed, 1 no answer, 2 wrong usage\n\n"
                  "example: gyre dump 4711 > records.jsonl",
        .flag = flag,
        .flags = 1};
    const char *word[1] = {0}, *where = NULL;
    struct gyre_trouble trouble = {0};
    struct gyre_trails trails = {0};
    int status = open_asking(&asking, argv, word, &where, &trails, &trouble);
    if (!status)
        gyre_dump_lines(stdout, &trails);
    gyre_trails_free(&trails);
    return status < 0 ? gyre_cli_fail("dump", status, &trouble) : 0;
}

/* -- top --------------------------------------------------------------------------------------- */

int gyre_cli_top(char **argv)
{
    static const struct gyre_flag flag[] = {
        {"times", 'n', "COUNT", "so many seconds (until the job ends)"},
        {"prometheus", 'p', NULL, "what the records say now, as text for Prometheus"},
        {"help", 'h', NULL, "this page"}};
    static const struct asking asking = {
        .name = "top",
        .usage = "usage: gyre top JOB [FLAGS]\n\n"
                 "Prints once a second what the ranks of a job here do: calls, bytes, bus "
                 "bandwidth, the share of\nthe time that they wait, and the slowest rank.\n\n"
                 "flags:",
        .ending = "\nexit code: 0 the job or the count has ended, 1 no answer, 2 wrong usage\n\n"
                  "example: gyre top 4711\n"
                  "         gyre top 4711 --prometheus > /var/lib/node_exporter/gyre.prom",
        .flag = flag,
        .flags = 3};
    const char *word[3] = {0}, *where = NULL;
    struct gyre_trouble trouble = {0};
    struct gyre_trails trails = {0};
    int status = open_asking(&asking, argv, word, &where, &trails, &trouble);
    long times = word[0] ? strtol(word[0], NULL, 10) : 0;
    if (!status && word[0] && times < 1)
        status =
            gyre_trouble_set(&trouble, GYRE_INVALID, "--times %s: a count of at least 1", word[0]);
    if (!status && word[1])
        gyre_metrics_put(stdout, &trails);
    else if (!status)
        gyre_top_run(&trails, where, (uint64_t)times);
    gyre_trails_free(&trails);
    return status < 0 ? gyre_cli_fail("top", status, &trouble) : 0;
}
