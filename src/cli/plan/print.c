/* gyre plan: its answer as a table, and as JSON. Tested by tests/program/cli/plan.sh. */
#include "cli/plan/inside.h"

#include <inttypes.h>
#include <stdio.h>

static const char *time_text(char text[23], uint64_t ps)
{
    double us = (double)ps / 1e6;
    if (us < 1000)
        snprintf(text, 23, "%.1f us", us);
    else if (us < 1e6)
        snprintf(text, 23, "%.2f ms", us / 1e3);
    else
        snprintf(text, 23, "%.2f s", us / 1e6);
    return text;
}

static const char *bytes_text(char text[24], uint64_t bytes)
{
    static const char units[] = " KMGT";
    int unit = 0;
    double number = (double)bytes;
    for (; number >= 1024 && units[unit + 1] != '\0'; number /= 1024)
        unit++;
    snprintf(text, 24, number < 10 && unit > 0 ? "%.1f%.1s" : "%.0f%.1s", number,
             unit > 0 ? &units[unit] : "");
    return text;
}

static const char *speed_text(char text[24], uint64_t bits)
{
    if (bits >= 1000000000)
        snprintf(text, 24, "%g Gbit/s", (double)bits / 1e9);
    else
        snprintf(text, 24, "%g Mbit/s", (double)bits / 1e6);
    return text;
}

static uint64_t planned_bytes(const struct gyre_plan_asked *a,
                              const struct gyre_plan_answer *answer)
{
    return a->layers != 0 ? answer->step.bucket_bytes : a->bytes;
}

static void print_plan_title(const struct gyre_plan_asked *a, const struct gyre_plan_answer *answer)
{
    char size[24], speed[24], time[24];
    printf("# %s of %s%s on %u ranks: %u nodes of %u, each with %s and %s\n",
           gyre_verb_word[a->question.whole.verb], bytes_text(size, planned_bytes(a, answer)),
           a->layers != 0 ? " (a bucket)" : "", a->question.whole.n, a->nodes, a->ranks,
           speed_text(speed, a->link.bits_per_second), time_text(time, a->link.latency_ns * 1000));
    puts("# scratch, sent bytes and links are those of one rank; links: in its node + beyond");
    printf("%-18s%9s%7s%12s", "algorithm", "slice", "lanes", "time");
    if (a->slow_bits_per_second != 0)
        printf("%12s", "slow link");
    printf("%10s%10s%14s\n", "scratch", "sent", "links");
}

/* A time that was not rehearsed has a mark. */
static const char *row_time_text(char text[24], const struct gyre_plan_row *row, uint64_t ps)
{
    text[0] = '~';
    time_text(text + (row->choice.work == 0), ps);
    return text;
}

static void print_plan_row(const struct gyre_plan_asked *a, const struct gyre_plan_answer *answer,
                           const struct gyre_plan_row *row)
{
    char slice[24], time[24], slow[24], scratch[24], sent[24], links[48];
    uint64_t bytes = planned_bytes(a, answer);
    printf("%-18s%9s%7u%12s", row->choice.algorithm->name,
           bytes < 2 * row->choice.slice_bytes ? "whole"
                                               : bytes_text(slice, row->choice.slice_bytes),
           row->choice.lanes, row_time_text(time, row, row->choice.cost_ps));
    if (a->slow_bits_per_second != 0)
        printf("%12s", row_time_text(slow, row, row->slow_ps));
    snprintf(links, sizeof links, "%" PRIu64 " + %" PRIu64, row->near, row->far);
    printf("%10s%10s%14s\n", bytes_text(scratch, row->scratch_bytes),
           bytes_text(sent, row->sent_bytes), links);
}

static void print_part(const char *name, uint64_t ps, uint64_t all)
{
    char time[24];
    printf("  %-22s%12s%6.1f %%\n", name, time_text(time, ps),
           all == 0 ? 0 : 100.0 * (double)ps / (double)all);
}

static void print_parts(const struct gyre_plan_row *row, const struct gyre_plan_parts *p)
{
    uint64_t all = p->latency + p->network + p->inside + p->folds;
    printf("\nwhere the time of %s goes\n", row->choice.algorithm->name);
    print_part("latency and messages", p->latency, all);
    print_part("bytes between nodes", p->network, all);
    print_part("bytes inside nodes", p->inside, all);
    print_part("folds", p->folds, all);
}

static void print_slow(const struct gyre_plan_asked *a, const struct gyre_plan_answer *answer)
{
    char speed[24], before[24], after[24];
    const struct gyre_plan_row *first = &answer->row[0], *best = &answer->row[answer->best_if_slow];
    if (a->slow_bits_per_second == 0)
        return;
    printf("\nnode %u with %s: %s takes %s instead of %s, %.1f times as long\n",
           a->question.link_kinds.slow_node, speed_text(speed, a->slow_bits_per_second),
           first->choice.algorithm->name, time_text(after, first->slow_ps),
           time_text(before, first->choice.cost_ps),
           (double)first->slow_ps / (double)first->choice.cost_ps);
    if (best != first)
        printf("best then: %s, %s\n", best->choice.algorithm->name,
               time_text(after, best->slow_ps));
}

static double percent_off(const struct gyre_plan_row *row)
{
    return 100 * ((double)row->alike_ps - (double)row->simulated_ps) / (double)row->simulated_ps;
}

static void print_simulated(const struct gyre_plan_asked *a, const struct gyre_plan_answer *answer)
{
    char simulated[24], alike[24];
    if (a->word[SIMULATE] == NULL)
        return;
    puts("\nthe engine itself in virtual time, where nothing costs a core time\n"
         "  algorithm            simulated     planned");
    for (uint32_t i = 0; i < answer->rows; i++) {
        const struct gyre_plan_row *row = &answer->row[i];
        if (row->simulated_ps == 0)
            printf("  %-18s%12s\n", row->choice.algorithm->name, "too large");
        else
            printf("  %-18s%12s%12s%+7.1f %%\n", row->choice.algorithm->name,
                   time_text(simulated, row->simulated_ps), time_text(alike, row->alike_ps),
                   percent_off(row));
    }
}

static void print_training_step(const struct gyre_plan_asked *a, const struct gyre_plan_step *s)
{
    char each[24], all[24], hidden[24], exposed[24], step[24], compute[24], bytes[24];
    if (a->layers == 0)
        return;
    printf("\na step of %s: %" PRIu64 " parameters, %" PRIu64 " buckets of %s\n", a->word[MODEL],
           s->parameters, s->buckets, bytes_text(bytes, s->bucket_bytes));
    printf("  a bucket by %s %s, all %s\n", s->algorithm->name, time_text(each, s->bucket_ps),
           time_text(all, s->alone_ps));
    printf("  backward pass %s, hidden behind it %s, exposed %s: %s\n",
           time_text(compute, a->compute_ns * 1000), time_text(hidden, s->hidden_ps),
           time_text(exposed, s->exposed_ps),
           time_text(step, a->compute_ns * 1000 + s->exposed_ps));
}

void gyre_plan_print(const struct gyre_plan_asked *a, const struct gyre_plan_answer *answer)
{
    print_plan_title(a, answer);
    for (uint32_t i = 0; i < answer->rows; i++)
        print_plan_row(a, answer, &answer->row[i]);
    print_parts(&answer->row[answer->best_if_slow], &answer->parts);
    print_slow(a, answer);
    print_simulated(a, answer);
    print_training_step(a, &answer->step);
}

/* -- JSON -------------------------------------------------------------------------------------- */

static void print_row_object(const struct gyre_plan_asked *a, const struct gyre_plan_row *row,
                             bool first)
{
    printf("%s\n  {\"algorithm\":\"%s\",\"slice_bytes\":%" PRIu64 ",\"lanes\":%u,\"us\":%.3f",
           first ? "" : ",", row->choice.algorithm->name, row->choice.slice_bytes,
           row->choice.lanes, (double)row->choice.cost_ps / 1e6);
    printf(",\"rehearsed\":%s", row->choice.work != 0 ? "true" : "false");
    if (a->slow_bits_per_second != 0)
        printf(",\"slow_us\":%.3f", (double)row->slow_ps / 1e6);
    if (row->simulated_ps != 0)
        printf(",\"simulated_us\":%.3f,\"alike_us\":%.3f,\"off_percent\":%.3f",
               (double)row->simulated_ps / 1e6, (double)row->alike_ps / 1e6, percent_off(row));
    printf(",\"scratch_bytes\":%" PRIu64 ",\"sent_bytes\":%" PRIu64 ",\"links_near\":%" PRIu64
           ",\"links_far\":%" PRIu64 "}",
           row->scratch_bytes, row->sent_bytes, row->near, row->far);
}

void gyre_plan_print_json(const struct gyre_plan_asked *a, const struct gyre_plan_answer *answer)
{
    const struct gyre_plan_parts *p = &answer->parts;
    const struct gyre_plan_step *s = &answer->step;
    printf("{\"operation\":\"%s\",\"n\":%u,\"nodes\":%u,\"bytes\":%" PRIu64
           ",\"bits_per_second\":%" PRIu64 ",\"latency_ns\":%" PRIu64 ",\"algorithms\":[",
           gyre_verb_word[a->question.whole.verb], a->question.whole.n, a->nodes,
           planned_bytes(a, answer), a->link.bits_per_second, a->link.latency_ns);
    for (uint32_t i = 0; i < answer->rows; i++)
        print_row_object(a, &answer->row[i], i == 0);
    printf("],\n \"best\":\"%s\",\"parts_us\":{\"latency\":%.3f,\"network\":%.3f,\"inside\":%.3f,"
           "\"folds\":%.3f}",
           answer->row[answer->best_if_slow].choice.algorithm->name, (double)p->latency / 1e6,
           (double)p->network / 1e6, (double)p->inside / 1e6, (double)p->folds / 1e6);
    if (a->layers != 0)
        printf(",\n \"step\":{\"parameters\":%" PRIu64 ",\"buckets\":%" PRIu64
               ",\"bucket_us\":%.3f,\"hidden_us\":%.3f,\"exposed_us\":%.3f}",
               s->parameters, s->buckets, (double)s->bucket_ps / 1e6, (double)s->hidden_ps / 1e6,
               (double)s->exposed_ps / 1e6);
    puts("}");
}
