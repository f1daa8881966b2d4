/* gyre trace: what each lane of each rank did, from the traces that GYRE_TRACE has made. Tested by
 * tests/program/cli/trace.c. */
#include "cli/commands.h"

#include "base/env.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "cli/trace/chakra.h"
#include "cli/trace/chrome.h"
#include "cli/trace/reading/clocks.h"
#include "cli/trace/html.h"
#include "cli/trace/reading/pairs.h"
#include "cli/trace/reading/read.h"
#include "cli/trace/summary.h"
#include "cli/trace/torch.h"
#include "cli/trace/reading/tracks.h"
#include "data/files/file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { CHROME, HTML, TORCH, CHAKRA, LAST, HELP, FLAGS };

static const struct gyre_flag trace_flag[FLAGS] = {
    {"chrome", 'c', "FILE", "writes JSON for Perfetto and chrome://tracing"},
    {"html", 'w', "FILE", "writes a page for a browser: a timeline of all lanes"},
    {"torch", 't', "FILE",
     "writes FILE0, FILE1 and so on, for the analyser of torch's flight recorder"},
    {"chakra", 'k', "FILE", "writes FILE.0.et, FILE.1.et and so on: Chakra's execution traces"},
    {"last", 'l', "TIME", "only the last so much: 250ms, 5s (all)"},
    {"help", 'h', NULL, "this page"}};

static void print_trace_help(void)
{
    puts("usage: gyre trace DIR [FLAGS]\n\n"
         "Prints what the ranks of a job did: calls, messages, and the time that their lanes\n"
         "spent on the wire, folding and waiting. DIR has the traces of a job that ran with\n"
         "GYRE_TRACE=DIR. A FILE may be - for standard output, where one file is "
         "written.\n\nflags:");
    gyre_flags_print(trace_flag, FLAGS);
    puts("\nexit code: 0 done, 1 no answer, 2 wrong usage, or no trace there\n\n"
         "example: GYRE_TRACE=traces gyre run -n 4 program\n"
         "         gyre trace traces --chrome trace.json");
}

static int read_trace_words(char **argv, const char **word, const char **folder,
                            struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = argv, .flag = trace_flag, .count = FLAGS};
    int status = gyre_flags_read_around(&flags, word, folder, "one folder", trouble);
    if (!status && !*folder && !word[HELP])
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "which traces? Give the folder that GYRE_TRACE named");
    return status;
}

/* Says what was not used. */
static void tell_unused(const struct gyre_timeline *timeline)
{
    if (timeline->refused)
        fprintf(stderr, "gyre trace: %u file%s cannot be used: %s\n", timeline->refused,
                timeline->refused == 1 ? "" : "s", timeline->text);
    if (timeline->others)
        fprintf(stderr, "gyre trace: %u file%s of other jobs left aside\n", timeline->others,
                timeline->others == 1 ? "" : "s");
    for (uint32_t r = 0; r < timeline->count; r++)
        if (timeline->of[r].torn)
            fprintf(stderr, "gyre trace: the file of rank %u is torn, and read as far as it goes\n",
                    timeline->of[r].head.rank);
}

/* Keeps the bars that end in the last `ns`. */
static void keep_last(struct gyre_timeline *timeline, int64_t ns)
{
    const int64_t from = timeline->end - ns;
    for (uint32_t r = 0; r < timeline->count; r++) {
        struct gyre_timeline_rank *rank = &timeline->of[r];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < rank->bars; i++)
            if (rank->bar[i].end >= from)
                rank->bar[kept++] = rank->bar[i];
        rank->bars = kept;
    }
}

/* Clocks need pairs, and tracks need clocks, but break pairs. */
static int order_timeline(struct gyre_timeline *timeline, const char *last,
                          struct gyre_trouble *trouble)
{
    int64_t ms = 0;
    int status = last ? gyre_parse_duration_ms("--last", last, &ms, trouble) : 0;
    if (!status)
        status = gyre_pairs_find(timeline, trouble);
    if (!status)
        status = gyre_clocks_set(timeline, trouble);
    if (status)
        return status;
    if (last)
        keep_last(timeline, ms * 1000000);
    if ((status = gyre_tracks_lay(timeline, trouble)) ||
        (status = gyre_pairs_find(timeline, trouble)))
        return status;
    gyre_pairs_tell_waits(timeline);
    gyre_clocks_find_span(timeline);
    return 0;
}

/* A file that is written as a whole, or standard output. */
struct written {
    const char *path;
    char *text;
    size_t length;
    FILE *out;
};

static int begin_written(struct written *file, const char *path, struct gyre_trouble *trouble)
{
    *file = (struct written){.path = path};
    file->out = open_memstream(&file->text, &file->length);
    return file->out ? 0 : gyre_trouble_set(trouble, -ENOMEM, "no memory for %s", path);
}

static int end_written(struct written *file, struct gyre_trouble *trouble)
{
    bool whole = !ferror(file->out);
    whole &= fclose(file->out) == 0;
    const struct iovec part = {file->text, file->length};
    int status = 0;
    if (!whole)
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for %s", file->path);
    else if (!strcmp(file->path, "-"))
        fwrite(file->text, 1, file->length, stdout);
    else
        status = gyre_file_replace(file->path, &part, 1, trouble);
    free(file->text);
    return status;
}

static int write_out(const char *path, void (*put)(FILE *, const struct gyre_timeline *),
                     const struct gyre_timeline *timeline, struct gyre_trouble *trouble)
{
    struct written file;
    int status = begin_written(&file, path, trouble);
    if (status)
        return status;
    put(file.out, timeline);
    return end_written(&file, trouble);
}

/* Writes a file for each rank, whose name has the rank in it. */
static int write_ranks(const char *path, const char *between, const char *ending,
                       void (*put)(FILE *, const struct gyre_calls *, uint32_t place),
                       const struct gyre_timeline *timeline, struct gyre_trouble *trouble)
{
    char name[PATH_MAX];
    struct written file;
    struct gyre_calls calls;
    if (!strcmp(path, "-"))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a file for each rank is written: give the beginning of their "
                                "names instead of -");
    int status = gyre_calls_read(&calls, timeline, trouble);
    for (uint32_t r = 0; !status && r < timeline->count; r++) {
        snprintf(name, sizeof name, "%s%s%u%s", path, between, timeline->of[r].head.rank, ending);
        status = begin_written(&file, name, trouble);
        if (status)
            break;
        put(file.out, &calls, r);
        status = end_written(&file, trouble);
    }
    gyre_calls_free(&calls);
    return status;
}

static int tell_timeline(const struct gyre_timeline *timeline, const char *const *word,
                         struct gyre_trouble *trouble)
{
    int status = 0;
    if (word[CHROME])
        status = write_out(word[CHROME], gyre_chrome_put, timeline, trouble);
    if (!status && word[HTML])
        status = write_out(word[HTML], gyre_html_put, timeline, trouble);
    if (!status && word[TORCH])
        status = write_ranks(word[TORCH], "", "", gyre_torch_put, timeline, trouble);
    if (!status && word[CHAKRA])
        status = write_ranks(word[CHAKRA], ".", ".et", gyre_chakra_put, timeline, trouble);
    if (!word[CHROME] && !word[HTML] && !word[TORCH] && !word[CHAKRA])
        gyre_summary_print(stdout, timeline);
    return status;
}

int gyre_cli_trace(char **argv)
{
    const char *word[FLAGS] = {0}, *folder = NULL;
    struct gyre_trouble trouble = {0};
    struct gyre_timeline timeline = {0};
    gyre_cli_tell_strangers("trace");
    int status = read_trace_words(argv, word, &folder, &trouble);
    if (!status && word[HELP]) {
        print_trace_help();
        return 0;
    }
    if (!status)
        status = gyre_timeline_read(&timeline, folder, &trouble);
    if (!status) {
        tell_unused(&timeline);
        status = order_timeline(&timeline, word[LAST], &trouble);
    }
    if (!status)
        status = tell_timeline(&timeline, word, &trouble);
    gyre_timeline_free(&timeline);
    return status ? gyre_cli_fail("trace", status, &trouble) : 0;
}
