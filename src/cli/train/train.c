/* gyre train: a model, its data and its options, over the ranks of a job.
 *
 * With --ranks it starts them here, with --scaling one job after another; otherwise it is a rank of
 * whatever launched it, or alone. What is asked for comes from a preset, then a file, then flags:
 * the last word counts. Tested by tests/program/train/options.c. */
#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "cli/train/closing.h"
#include "cli/train/ranks.h"
#include "cli/train/scaling.h"
#include "train/train.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gyre/gyre.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RANKS,
    RESTARTS,
    SCALING,
    MARKDOWN,
    BACKEND,
    DEVICES,
    PRESET,
    CONFIG,
    HELP,
    TYPED,
    MEASURED,
    OWN
};
#define FLAGS_MOST 96

static const struct gyre_flag own_flags[OWN] = {
    [RANKS] = {"ranks", 0, "COUNT", "start so many ranks here; without it, be one of a job's"},
    [RESTARTS] =
        {"restarts", 0, "COUNT",
         "after a failure go on from --save, or with --elastic start lost ranks again; at most "
         "so often"},
    [SCALING] = {"scaling", 0, "LIST", "train on each number of ranks, 1,2,4, and print a table"},
    [MARKDOWN] = {"markdown", 0, "FILE", "the table of --scaling; --svg is its drawing then"},
    [BACKEND] = {"backend", 0, "NAME", "how ranks reach each other: TRANSPORTS"},
    [DEVICES] = {"devices", 0, "LIST", "CUDA devices: local rank i takes entry i; 2,4,7"},
    [PRESET] = {"preset", 0, "NAME", "wine, digits or mnist: options of a known task"},
    [CONFIG] = {"config", 0, "FILE", "options from a file: name = value, a line each"},
    [HELP] = {"help", 'h', NULL, "this page"},
    [TYPED] = {"typed", 0, "TOOL", NULL},       /* the tool that --ranks was typed to */
    [MEASURED] = {"measured", 0, "FILE", NULL}, /* the figures of a run of --scaling */
};

struct asked {
    struct gyre_flag flag[FLAGS_MOST];
    int flags;
    const char *own[OWN];
    const char *value[FLAGS_MOST];
    bool given[FLAGS_MOST];
};

static void list_flags(struct asked *asked)
{
    const char *name, *value, *help;
    memcpy(asked->flag, own_flags, sizeof own_flags);
    asked->flags = OWN;
    for (int i = 0; asked->flags < FLAGS_MOST && (name = gyre_train_option_at(i, &value, &help));
         i++)
        asked->flag[asked->flags++] = (struct gyre_flag){name, 0, value, help};
}

static int print_train_help(const struct asked *asked)
{
    puts("usage: gyre train [FLAGS]\n");
    gyre_flags_print(asked->flag, asked->flags);
    puts("\nexamples: gyre train --preset wine --ranks 2\n"
         "          gyre train --data table.csv --ranks 2 --save run1 --restarts 3\n"
         "          gyre train --preset mnist --scaling 1,2,4 --svg scaling.svg\n"
         "          gyre train --data table.csv --layers 64,32,10 --optimizer adam --lr 1e-3\n"
         "          gyre run --hosts a:4,b:2 gyre train --config job.conf --save run1 --resume\n\n"
         "wine and digits are built in: UCI data sets, https://doi.org/10.24432/C5PC7J and\n"
         "https://doi.org/10.24432/C50P49, licensed under CC BY 4.0.");
    return 0;
}

/* -- reading ----------------------------------------------------------------------------------- */

static int read_train_words(struct asked *asked, char **argv, struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = argv, .flag = asked->flag, .count = asked->flags};
    int index;
    while ((index = gyre_flags_next(&flags, trouble)) >= 0) {
        asked->given[index] = true;
        asked->value[index] = flags.value;
        if (index < OWN)
            asked->own[index] = flags.value ? flags.value : "yes";
    }
    if (index == GYRE_FLAGS_END && *flags.argv)
        return gyre_trouble_set(trouble, GYRE_INVALID, "unexpected word '%s'", *flags.argv);
    return index == GYRE_FLAGS_END ? 0 : index;
}

static struct gyre_cli_scaling asked_scaling(const struct asked *asked)
{
    return (struct gyre_cli_scaling){.list = asked->own[MEASURED] ? NULL : asked->own[SCALING],
                                     .markdown = asked->own[MARKDOWN],
                                     .ranks = asked->own[RANKS]};
}

static int check_options(const struct asked *asked, struct gyre_train_options *options,
                         struct gyre_trouble *trouble)
{
    struct gyre_cli_scaling scaling = asked_scaling(asked);
    int status = scaling.list ? gyre_cli_scaling_check(&scaling, options, trouble) : 0;
    if (!status && asked->own[MARKDOWN] && !asked->own[SCALING])
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--markdown is the table of --scaling 1,2,4, which is not given");
    if (asked->own[MEASURED]) {
        options->metrics = asked->own[MEASURED];
        options->svg = NULL;
        options->quiet = true;
    }
    return status ? status : gyre_train_options_check(options, trouble);
}

/* The ranks get all words, --restarts too, for rank 0 repeats them in the end. */
static int check_restarts(const struct asked *asked, const struct gyre_train_options *options,
                          struct gyre_trouble *trouble)
{
    const char *restarts = asked->own[RESTARTS];
    if (!restarts)
        return 0;
    if (asked->own[SCALING])
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--restarts does not go with --scaling: its runs are measured");
    if (!asked->own[RANKS] && !asked->own[TYPED])
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "--restarts is of the ranks that --ranks starts; give it to what "
                                "starts this one: gyre run --restarts %s … gyre train …",
                                restarts);
    return options->save || options->elastic
               ? 0
               : gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--restarts needs --save DIR to go on from");
}

/* A training that is started again goes on. Where an earlier training had left something in the
 * folder, the first start was refused. */
static void resume_after_restart(struct gyre_train_options *options)
{
    if (options->save && !options->evaluate && gyre_cli_restarts())
        options->resume = true;
}

static int settle_options(const struct asked *asked, struct gyre_train_options *options,
                          char **storage, struct gyre_trouble *trouble)
{
    int status = 0;
    gyre_train_options_init(options);
    if (asked->own[PRESET])
        status = gyre_train_option_preset(options, asked->own[PRESET], trouble);
    if (!status && asked->own[CONFIG])
        status = gyre_train_option_file(options, asked->own[CONFIG], storage, trouble);
    for (int i = OWN; !status && i < asked->flags; i++)
        if (asked->given[i])
            status = gyre_train_option_set(options, asked->flag[i].name, asked->value[i], trouble);
    if (!status)
        status = check_options(asked, options, trouble);
    if (!status)
        status = check_restarts(asked, options, trouble);
    if (!asked->own[RANKS] && !asked->own[SCALING])
        resume_after_restart(options);
    return status;
}

/* -- one --------------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
    gyre_train_stop();
}

/* A second Ctrl-C ends it at once, and in the background there is none. */
static void listen(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags |= SA_RESETHAND;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

/* NULL: the path names no terminal. Any other file stays as it is. */
static FILE *open_terminal(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || (isatty(fd) && fcntl(fd, F_SETFL, 0) == 0))
        return fd < 0 ? NULL : fdopen(fd, "w");
    close(fd);
    return NULL;
}

static FILE *find_terminal(void)
{
    const char *path = getenv("GYRE_TERMINAL");
    FILE *terminal = path ? open_terminal(path) : NULL;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is read when it is said, through a pipe too */
    return terminal ? terminal : stdout;
}

static bool names_rank_0(const char *text)
{
    const char *name = "rank 0", *at = strstr(text, name);
    while (at && isdigit((unsigned char)at[strlen(name)]))
        at = strstr(at + 1, name);
    return at != NULL;
}

/* Without --typed and what follows it, which `gyre train --ranks` has put before the words. */
static struct gyre_cli_command typed_command(const struct asked *asked, char **argv,
                                             const struct gyre_comm *comm)
{
    int n = gyre_size(comm);
    if (asked->own[TYPED])
        return (struct gyre_cli_command){.tool = asked->own[TYPED], .ranks = n, .words = argv + 2};
    return (struct gyre_cli_command){
        .tool = program_invocation_name, .launched = n > 1, .words = argv};
}

static int be_training_rank(const struct asked *asked, char **argv,
                            const struct gyre_train_options *options, struct gyre_trouble *trouble)
{
    struct gyre_train_outcome outcome;
    struct gyre_comm *comm = NULL;
    listen();
    gyre_train_load(options);
    int status =
        gyre_cli_joins() ? 0 : gyre_init(&comm, NULL); /* a newcomer reads its data first */
    if (status)
        return gyre_trouble_set(trouble, status, "%s", gyre_error(NULL));
    FILE *terminal = find_terminal();
    status = gyre_train(&comm, options, terminal, &outcome, trouble);
    int rank = gyre_rank(comm);
    if (!status && !rank && !outcome.left) {
        struct gyre_cli_command command = typed_command(asked, argv, comm);
        gyre_cli_train_close(terminal, &command, options, &outcome);
    }
    int ended = gyre_finalize(comm);
    if (status && rank > 0 && (status != GYRE_PEER_LOST || !names_rank_0(trouble->text)))
        trouble->text[0] = 0; /* rank 0 tells it, unless it is the one that is lost */
    return status ? status : ended;
}

static int start_training(const struct asked *asked, char **argv,
                          const struct gyre_train_options *options, struct gyre_trouble *trouble)
{
    struct gyre_cli_scaling scaling = asked_scaling(asked);
    if (scaling.list)
        return gyre_cli_scaling(&scaling, options, argv, trouble);
    if (asked->own[RANKS])
        return gyre_cli_train_ranks(
            &(struct gyre_cli_train_start){.ranks = asked->own[RANKS],
                                           .restarts = asked->own[RESTARTS]},
            options, argv, trouble);
    return be_training_rank(asked, argv, options, trouble);
}

int gyre_cli_train(char **argv)
{
    struct asked asked = {0};
    struct gyre_trouble trouble = {0};
    struct gyre_train_options options;
    char *storage = NULL;
    list_flags(&asked);
    int status = read_train_words(&asked, argv, &trouble);
    if (!status && asked.own[HELP])
        return print_train_help(&asked);
    if (!status)
        status = settle_options(&asked, &options, &storage, &trouble);
    if (!status)
        status = gyre_cli_backend(asked.own[BACKEND], &trouble);
    if (!status)
        status = gyre_cli_devices(asked.own[DEVICES], &trouble);
    if (!status)
        status = start_training(&asked, argv, &options, &trouble);
    free(storage);
    if (status && !*trouble.text)
        return status == GYRE_INVALID ? 2 : 1;
    return status ? gyre_cli_fail("train", status, &trouble) : 0;
}
