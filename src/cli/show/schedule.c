/* gyre show: reads what to build, builds it for all ranks, prints. Nothing is sent anywhere. Tested
 * by tests/program/cli/show.c. */
#include "cli/show/parts.h"

#include "base/env.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/show/question.h"
#include "collectives/algorithms/table.h"
#include "collectives/prove/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int read_operation(const char *word, struct gyre_show_question *q,
                          struct gyre_trouble *trouble)
{
    char name[32];
    int index;
    if (word == NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "which operation? `gyre show all_reduce`, broadcast, reduce, "
                                "all_gather, reduce_scatter, all_to_all, gather or scatter");
    snprintf(name, sizeof name, "%s", word);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    size_t length = strlen(name);
    if (length > 2 && strcmp(name + length - 2, "_v") == 0) /* all_gather_v: its --counts say so */
        name[length - 2] = '\0';
    int status = gyre_parse_word("operation", name, gyre_verb_word, GYRE_VERBS, &index, trouble);
    if (status == 0)
        q->slice.verb = (enum gyre_verb)index;
    return status;
}

static int read_flags(char **argv, struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    struct gyre_flags flags = {.argv = argv, .flag = gyre_show_flags, .count = FLAGS};
    const char *operation = NULL;
    int index;
    do {
        if (*flags.argv != NULL && **flags.argv != '-' && operation == NULL)
            operation = *flags.argv++;
        index = gyre_flags_next(&flags, trouble);
        if (index >= 0)
            q->word[index] = flags.value != NULL ? flags.value : "yes";
    } while (index >= 0);
    if (index != GYRE_FLAGS_END || q->word[HELP] != NULL)
        return index == GYRE_FLAGS_END ? 0 : index;
    if (*flags.argv != NULL)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "unexpected word '%s'; one operation and its flags are expected",
                                *flags.argv);
    return read_operation(operation, q, trouble);
}

static void print_schedule_help(void)
{
    puts("usage: gyre show OPERATION [FLAGS]\n\noperations:");
    for (int verb = 0; verb < GYRE_VERBS; verb++)
        printf("  %s\n", gyre_verb_word[verb]);
    puts("\nflags:");
    gyre_flags_print(gyre_show_flags, FLAGS);
    puts("\nalgorithms:");
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        printf("  %-18s%s\n", (*it)->name, (*it)->summary);
    puts("\nexample: gyre show all_reduce --algo ring -n 5 --run\n"
         "         gyre show all_gather --counts 3,0,5 --run\n"
         "         gyre show all_reduce --algo ring --beside doubling -n 8 --html ring.html\n"
         "         gyre show all_reduce --check");
}

/* What was printed may be wrong. The checker names the rank, the round and the step of a defect,
 * where a play sees the wrong number alone. */
static int prove_shown(const struct gyre_show_question *q, int played, struct gyre_trouble *trouble)
{
    if (q->slice.n > GYRE_SHOW_RUN_MAX || (played != 0 && played != GYRE_CORRUPT))
        return played;
    struct gyre_trouble defect = {0};
    int status = gyre_check_schedule(q->algorithm, &q->slice, &defect);
    if (status == 0)
        return played;
    *trouble = defect;
    return status == -ENOMEM ? status : GYRE_CORRUPT;
}

static int answer_schedule(const struct gyre_show_question *q, struct gyre_trouble *trouble)
{
    int status;
    if (q->word[CHECK] != NULL)
        return gyre_show_check(q, trouble);
    if (q->word[HTML] != NULL)
        return gyre_show_html(q, trouble);
    if (q->word[RUN] != NULL)
        status = gyre_show_run(q, trouble);
    else if (q->word[JSON] != NULL)
        status = gyre_print_json(stdout, q->algorithm, &q->slice, q->ranks);
    else
        status = gyre_print_table(stdout, q->algorithm, &q->slice, q->ranks);
    status = prove_shown(q, status, trouble);
    if (status == -ENOMEM)
        gyre_trouble_set(trouble, status, "no memory for a schedule of %u ranks", q->slice.n);
    return status;
}

int gyre_cli_show_schedule(char **argv)
{
    struct gyre_show_question q = {0};
    struct gyre_trouble trouble = {0};
    int status = read_flags(argv, &q, &trouble);
    if (status == 0 && q.word[HELP] != NULL)
        return print_schedule_help(), 0;
    if (status == 0)
        status = gyre_show_settle(&q, &trouble);
    if (status == 0)
        status = answer_schedule(&q, &trouble);
    gyre_show_forget(&q);
    return status == 0 ? 0 : gyre_cli_fail("show", status, &trouble);
}
