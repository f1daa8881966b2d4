/* gyre show choices: for each size, what would be chosen, what it is predicted to take, and what
 * comes next. The code that communicators choose by is asked, with the same environment, so the
 * table is what happens; the times are the model's. Tested by tests/program/cli/choices.sh. */
#include "cli/show/parts.h"

#include "cli/show/choices_asked.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "collectives/schedule/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_choices_help(void)
{
    puts("usage: gyre show choices [FLAGS]\n");
    gyre_flags_print(gyre_choices_flags, FLAGS);
    puts("\nexamples: gyre show choices -n 8\n"
         "          gyre show choices --nodes 4+4 --op broadcast\n"
         "          GYRE_REPRODUCIBLE=1 gyre show choices -n 8 -t tcp --type f16\n"
         "          GYRE_TUNE_FILE=my.tune gyre show choices -n 4 --transport tcp");
}

static void size_text(char *text, size_t room, uint64_t bytes)
{
    static const char units[] = " KMGT";
    int unit = 0;
    for (; bytes >= 1024 && bytes % 1024 == 0 && units[unit + 1]; bytes /= 1024)
        unit++;
    snprintf(text, room, unit ? "%" PRIu64 "%c" : "%" PRIu64, bytes, units[unit]);
}

static void print_title(const struct gyre_choices_asked *a)
{
    const struct gyre_question *q = &a->question;
    printf("# %s, %u ranks on %u node%s, %s%s\n", a->operation, q->whole.n,
           q->whole.layout ? q->whole.layout->nodes : 1,
           q->whole.layout && q->whole.layout->nodes > 1 ? "s" : "",
           q->mapped ? "shared memory" : gyre_link_kind_name[q->link_kinds.far],
           a->preference.reproducible ? ", reproducible" : "");
    if (a->kind == UNEQUAL)
        puts("# by what builds blocks of unequal length, as if all were as long as the largest");
    if (a->kind == BARRIER)
        puts("# a barrier is an all_reduce of 1 byte and follows its rules");
    puts("# times are predicted for a core per rank");
    printf("%8s  %-18s%8s%7s%14s   %s\n", "size", "algorithm", "slice", "lanes", "predicted us",
           "runner-up");
}

static void print_row(const struct gyre_choice *best, const struct gyre_choice *second,
                      uint64_t bytes)
{
    char size[24], slice[24];
    size_text(size, sizeof size, bytes);
    size_text(slice, sizeof slice, best->slice_bytes);
    printf("%8s  %-18s%8s%7u%14.2f   ", size, best->algorithm->name,
           bytes < 2 * best->slice_bytes ? "whole" : slice, best->lanes,
           (double)best->cost_ps / 1e6);
    if (second->algorithm)
        printf("%s %.2f\n", second->algorithm->name, (double)second->cost_ps / 1e6);
    else
        puts("-");
}

static void print_object(const struct gyre_choice *best, const struct gyre_choice *second,
                         uint64_t bytes, bool first)
{
    printf("%s{\"bytes\":%" PRIu64 ",\"algorithm\":\"%s\",\"slice_bytes\":%" PRIu64
           ",\"lanes\":%u,\"predicted_us\":%.3f",
           first ? "[" : ",\n ", bytes, best->algorithm->name, best->slice_bytes, best->lanes,
           (double)best->cost_ps / 1e6);
    if (second->algorithm)
        printf(",\"runner_up\":\"%s\",\"runner_up_us\":%.3f", second->algorithm->name,
               (double)second->cost_ps / 1e6);
    putchar('}');
}

static void cut_blocks(struct gyre_choices_asked *a)
{
    struct gyre_slice *whole = &a->question.whole;
    for (uint32_t block = 0; a->blocks && block < whole->n; block++) {
        a->blocks[block] = block * whole->count;
        a->blocks[whole->n + block] = whole->count;
    }
}

static int answer_choices(struct gyre_choices_asked *a, struct gyre_trouble *trouble)
{
    if (!a->word[JSON])
        print_title(a);
    for (uint64_t bytes = a->from; bytes <= a->to; bytes *= 4) {
        struct gyre_slice *whole = &a->question.whole;
        struct gyre_choice best, second;
        whole->count = whole->stride = bytes / whole->element;
        cut_blocks(a);
        a->question.algorithm = gyre_rules_find(&a->preference.rules, whole, a->question.in_order);
        int status = gyre_choose(&a->question, &best, &second, trouble);
        if (status)
            return status;
        if (a->word[JSON])
            print_object(&best, &second, bytes, bytes == a->from);
        else
            print_row(&best, &second, bytes);
    }
    if (a->word[JSON])
        puts("]");
    return 0;
}

int gyre_cli_show_choices(char **argv)
{
    struct gyre_choices_asked a = {0};
    struct gyre_flags flags = {.argv = argv, .flag = gyre_choices_flags, .count = FLAGS};
    struct gyre_trouble trouble = {0};
    int status = gyre_flags_read_only(&flags, a.word, &trouble);
    if (!status && a.word[HELP])
        return print_choices_help(), 0;
    if (!status)
        status = gyre_choices_settle(&a, &trouble);
    if (!status && a.kind == ONE_WAY)
        puts(a.word[JSON] ? "[]"
                          : "# all_to_all_v: a message from every rank to every other; there is "
                            "nothing to choose");
    else if (!status)
        status = answer_choices(&a, &trouble);
    free(a.blocks);
    gyre_layout_destroy(a.layout);
    return status ? gyre_cli_fail("show choices", status, &trouble) : 0;
}
