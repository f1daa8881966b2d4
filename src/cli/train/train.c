/* gyre train: a model, its data and its options, over the ranks of a job.
 *
 * With --ranks it starts them here; otherwise it is a rank of whatever launched it, or alone. What
 * is asked for comes from a preset, then a file, then flags: the last word counts. Tested by
 * tests/program/train/options.c. */
#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/flags.h"
#include "cli/train/ranks.h"
#include "train/train.h"

#include <ctype.h>
#include <gyre/gyre.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS, BACKEND, DEVICES, PRESET, CONFIG, HELP, OWN };
#define FLAGS_MOST 96

static const struct gyre_flag own_flags[OWN] = {
    [RANKS] = {"ranks", 0, "COUNT", "start so many ranks here; without it, be one of a job's"},
    [BACKEND] = {"backend", 0, "NAME", "how ranks reach each other: TRANSPORTS"},
    [DEVICES] = {"devices", 0, "LIST", "CUDA devices: local rank i takes entry i; 2,4,7"},
    [PRESET] = {"preset", 0, "NAME", "wine or mnist: options of a known task"},
    [CONFIG] = {"config", 0, "FILE", "options from a file: name = value, a line each"},
    [HELP] = {"help", 'h', NULL, "this page"},
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
         "          gyre train --data digits.csv --layers 64,32,10 --optimizer adam --lr 1e-3\n"
         "          gyre run --hosts a:4,b:2 gyre train --config job.conf --save run1 --resume");
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
    return status ? status : gyre_train_options_check(options, trouble);
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

static FILE *find_terminal(void)
{
    const char *path = getenv("GYRE_TERMINAL");
    FILE *terminal = path ? fopen(path, "we") : NULL;
    return terminal ? terminal : stderr;
}

static bool names_rank_0(const char *text)
{
    const char *name = "rank 0", *at = strstr(text, name);
    while (at && isdigit((unsigned char)at[strlen(name)]))
        at = strstr(at + 1, name);
    return at != NULL;
}

static int be_training_rank(const struct gyre_train_options *options, struct gyre_trouble *trouble)
{
    struct gyre_train_outcome outcome;
    struct gyre_comm *comm;
    listen();
    int status = gyre_init(&comm, NULL);
    if (status)
        return gyre_trouble_set(trouble, status, "%s", gyre_error(NULL));
    int rank = gyre_rank(comm);
    FILE *terminal = find_terminal();
    status = gyre_train(comm, options, terminal, &outcome, trouble);
    int ended = gyre_finalize(comm);
    if (!status && !outcome.steps && options->save && !rank)
        fprintf(terminal, "gyre train: no step was made, so nothing is saved in %s\n",
                options->save);
    if (!status && outcome.stopped && !rank)
        fprintf(terminal, "gyre train: stopped by a signal behind step %llu%s%s\n",
                (unsigned long long)outcome.steps,
                options->save ? "; saved in " : "; nothing is saved",
                options->save ? options->save : "");
    if (status && rank && (status != GYRE_PEER_LOST || !names_rank_0(trouble->text)))
        trouble->text[0] = 0; /* rank 0 tells it, unless it is the one that is lost */
    return status ? status : ended;
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
    if (!status && asked.own[DEVICES])
        setenv("GYRE_DEVICES", asked.own[DEVICES], 1);
    if (!status)
        status = asked.own[RANKS] ? gyre_cli_train_ranks(asked.own[RANKS], argv, &trouble)
                                  : be_training_rank(&options, &trouble);
    free(storage);
    if (status && !*trouble.text)
        return status == GYRE_INVALID ? 2 : 1;
    return status ? gyre_cli_fail("train", status, &trouble) : 0;
}
