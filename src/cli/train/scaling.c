/* gyre train --scaling 1,2,4: the same words on each number of ranks, a fresh job each, one after
 * another. A row is printed when its run has ended; the files are written when all have.
 *
 * --batch is of each rank, so it stays the same in every row (weak scaling); --global-batch is of
 * all ranks (strong scaling). Either way an epoch passes the same samples, and samples per second
 * are what is compared. Tested by tests/program/train/scaling.c. */
#include "cli/train/scaling.h"

#include "base/env.h"
#include "base/log.h"
#include "cli/train/ranks.h"
#include "cli/train/scaling_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the table and the drawing go; NULL: nowhere. */
struct scaling_files {
    FILE *markdown, *svg;
};

/* -- what is refused --------------------------------------------------------------------------- */

int gyre_cli_scaling_check(const struct gyre_cli_scaling *scaling,
                           const struct gyre_train_options *o, struct gyre_trouble *trouble)
{
    static const char kept[] = "its runs are measured and not kept";
    static const char one[] = "it is of one run; --markdown and --svg have the table";
    const struct {
        bool given;
        const char *name, *why;
    } refused[] = {
        {scaling->ranks, "--ranks", "--scaling says how many ranks to start"},
        {o->evaluate, "--evaluate", "it trains nothing"},
        {o->resume, "--resume", "each run begins anew"},
        {o->save, "--save", kept},
        {o->metrics, "--metrics", one},
        {o->csv, "--csv", one},
        {o->tensorboard, "--tensorboard", one},
        {o->epochs < 1, "--epochs 0", "epochs are what is measured"},
        {scaling->markdown && o->svg && !strcmp(scaling->markdown, o->svg), "--markdown",
         "--svg is the same file; give each its own"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].given)
            return gyre_trouble_set(trouble, GYRE_INVALID, "%s does not go with --scaling: %s",
                                    refused[i].name, refused[i].why);
    return 0;
}

/* Writes the numbers of ranks into the runs. */
static int read_rank_counts(const char *list, struct gyre_scaling *table,
                            struct gyre_trouble *trouble)
{
    char *copy = strdup(list), *rest = copy, *word;
    int64_t ranks, before = 0;
    int status = copy ? 0 : gyre_trouble_set(trouble, -ENOMEM, "no memory for --scaling %s", list);
    while (!status && (word = strsep(&rest, ","))) {
        status = gyre_parse_int("--scaling", word, 1, GYRE_CLI_TRAIN_RANKS_MOST, &ranks, trouble);
        if (!status && (ranks <= before || table->runs == GYRE_SCALING_RUNS))
            status = gyre_trouble_set(trouble, GYRE_INVALID,
                                      "--scaling %s: at most %d numbers of ranks are expected, "
                                      "each greater than the one before, such as 1,2,4",
                                      list, GYRE_SCALING_RUNS);
        if (!status)
            table->run[table->runs++].ranks = (int)(before = ranks);
    }
    free(copy);
    return status;
}

static int check_starts(const struct gyre_scaling *table, const char *list,
                        const struct gyre_train_options *options, const struct gyre_cores *cores,
                        struct gyre_trouble *trouble)
{
    int status = 0;
    for (int i = 0; !status && i < table->runs; i++)
        status = gyre_cli_train_check_start(table->run[i].ranks, options, cores, trouble);
    if (status)
        gyre_trouble_wrap(trouble, "--scaling %s", list);
    return status;
}

/* -- what is told beside the rows -------------------------------------------------------------- */

static void describe_scaling(struct gyre_scaling *table, const struct gyre_train_options *o,
                             const struct gyre_cores *cores)
{
    size_t used;
    table->tested = o->test != NULL;
    snprintf(table->title, sizeof table->title, "Scaling of %.120s on %.64s, %d core%s", o->data,
             gyre_host_name(), cores->count, cores->count > 1 ? "s" : "");
    used =
        (size_t)snprintf(table->rule, sizeof table->rule, "%s; ",
                         o->global_batch ? "strong scaling: all ranks together have the same batch"
                                         : "weak scaling: each rank has the same batch");
    if (o->epochs > 2)
        snprintf(table->rule + used, sizeof table->rule - used,
                 "epochs 2 to %lld count, the first warms up", (long long)o->epochs);
    else
        snprintf(table->rule + used, sizeof table->rule - used, "%s",
                 o->epochs == 2 ? "epoch 2 counts, the first warms up"
                                : "the only epoch counts, its slower first steps too");
}

__attribute__((format(printf, 2, 3))) static void add_note(struct gyre_scaling *table,
                                                           const char *format, ...)
{
    char *note = table->note[table->notes++];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, sizeof table->note[0], format, arguments);
    va_end(arguments);
    fprintf(stderr, "gyre train: warning: %s\n", note);
}

/* The runs are in the order of their ranks: the last has the most. */
static void note_cores(struct gyre_scaling *table, const struct gyre_cores *cores)
{
    if (table->run[table->runs - 1].ranks > cores->count)
        add_note(table,
                 "runs of more than %d rank%s share the %d core%s of this machine: their rows say "
                 "nothing of a machine with a core for each rank",
                 cores->count, cores->count > 1 ? "s" : "", cores->count,
                 cores->count > 1 ? "s" : "");
}

/* -- the files --------------------------------------------------------------------------------- */

/* Opens a file before the first run, and leaves what is in it until there is something new. */
static int open_page(const char *path, FILE **file, struct gyre_trouble *trouble)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666) : -1;
    *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!path || *file)
        return 0;
    return gyre_trouble_set(trouble, -errno,
                            "opening %s to write: %s; name a file that can be written", path,
                            strerror(errno));
}

static int write_page(FILE *file, const char *path,
                      void (*put)(FILE *, const struct gyre_scaling *),
                      const struct gyre_scaling *table, struct gyre_trouble *trouble)
{
    if (!file)
        return 0;
    (void)!ftruncate(fileno(file), 0); /* a pipe or a device has nothing to cut */
    put(file, table);
    if (fflush(file) == 0)
        return 0;
    return gyre_trouble_set(trouble, -errno, "writing %s: %s", path, strerror(errno));
}

static void close_pages(struct scaling_files *files)
{
    if (files->markdown)
        fclose(files->markdown);
    if (files->svg)
        fclose(files->svg);
}

/* -- the runs ---------------------------------------------------------------------------------- */

static int run_one(struct gyre_scaling *table, int i, const struct gyre_train_options *options,
                   char **argv, struct gyre_trouble *trouble)
{
    struct gyre_scaling_run *run = &table->run[i];
    char load[512], about[96] = "";
    if (!options->quiet)
        snprintf(about, sizeof about, "gyre train: run %d of %d: %d rank%s\n", i + 1, table->runs,
                 run->ranks, run->ranks > 1 ? "s" : "");
    int status = gyre_cli_scaling_run(run, about, options, argv, load, trouble);
    if (status)
        return status;
    gyre_scaling_put_row(stdout, table, i);
    fflush(stdout);
    table->loaded |= *load != 0;
    if (*load)
        add_note(table, "while %d rank%s trained, %s; measure again when the machine is quiet",
                 run->ranks, run->ranks > 1 ? "s" : "", load);
    return 0;
}

static int run_each(struct gyre_scaling *table, const struct gyre_train_options *options,
                    char **argv, struct gyre_trouble *trouble)
{
    int status = 0;
    gyre_scaling_put_head(stdout, table);
    fflush(stdout);
    for (int i = 0; !status && i < table->runs; i++)
        status = run_one(table, i, options, argv, trouble);
    return status;
}

int gyre_cli_scaling(const struct gyre_cli_scaling *scaling,
                     const struct gyre_train_options *options, char **argv,
                     struct gyre_trouble *trouble)
{
    static struct gyre_scaling table;
    static struct gyre_cores cores;
    struct scaling_files files = {0};
    gyre_cores_find(&cores);
    int status = read_rank_counts(scaling->list, &table, trouble);
    if (!status)
        status = check_starts(&table, scaling->list, options, &cores, trouble);
    if (!status)
        status = open_page(scaling->markdown, &files.markdown, trouble);
    if (!status)
        status = open_page(options->svg, &files.svg, trouble);
    if (!status) {
        describe_scaling(&table, options, &cores);
        note_cores(&table, &cores);
        status = run_each(&table, options, argv, trouble);
    }
    if (!status)
        status = write_page(files.markdown, scaling->markdown, gyre_scaling_put_markdown, &table,
                            trouble);
    if (!status)
        status = write_page(files.svg, options->svg, gyre_scaling_put_svg, &table, trouble);
    close_pages(&files);
    return status;
}
