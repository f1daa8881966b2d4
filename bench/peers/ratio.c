/* Medians and ratios of what bench/compare measured.
 *
 *     ratio compare.csv [compare.svg]
 *
 *     section,op,ranks,bytes,peer,round, time …    for each section, operation and number of ranks:
 *     shm,all_reduce,2,4096,Gyre,1,1.29 …    ─▶    a table of medians over the rounds, with the
 *     shm,all_reduce,2,4096,MPICH,1,3.66 …         ratio of the best peer's to ours, and one of
 *                                                  processor time and of percentiles
 *
 * Peers whose name begins with "Gyre" are ours; each has a ratio of its own. Above 1 it is faster
 * than the best other at that size. Prints Markdown; exits with 1 if any line counts a wrong
 * result, with 2 if the file cannot be read. */
#include "plot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MISSING "–"

/* -- cells ------------------------------------------------------------------------------------- */

/* Three digits. */
static void print_number(double value, const char *behind)
{
    if (value <= 0) {
        printf(MISSING "%s", behind);
    } else {
        printf("%.*f%s", value < 10 ? 2 : value < 100 ? 1 : 0, value, behind);
    }
}

/* The best other's time; 0 if there is none. */
static double best_peer(const struct results *results, const struct group *group, uint64_t bytes,
                        bool in_place)
{
    double best = 0;
    for (int i = group->ours; i < group->peers; i++) {
        double time = results_median(results, group, group->peer[i], bytes, in_place, FIELD_TIME);
        best = time > 0 && (best == 0 || time < best) ? time : best;
    }
    return best;
}

static double ratio_of(const struct results *results, const struct group *group, int ours,
                       uint64_t bytes, bool in_place)
{
    double time = results_median(results, group, group->peer[ours], bytes, in_place, FIELD_TIME);
    return time > 0 ? best_peer(results, group, bytes, in_place) / time : 0;
}

/* -- tables ------------------------------------------------------------------------------------ */

static bool has_half(const struct results *results, const struct group *group, bool in_place)
{
    for (int i = 0; i < group->sizes; i++) {
        if (results_median(results, group, group->peer[0], group->size[i], in_place, FIELD_TIME) >
            0) {
            return true;
        }
    }
    return false;
}

static void print_head(const struct results *results, const struct group *group, bool halves[2])
{
    int columns = 0;
    printf("| size |");
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < group->peers && halves[half]; i++, columns++) {
            printf(" %s%s |", results->peers.name[group->peer[i]],
                   i > 0  ? ""
                   : half ? ", in place"
                          : ", µs");
        }
        for (int i = 0; i < group->ours && halves[half]; i++, columns++) {
            printf(" best / %s |", results->peers.name[group->peer[i]]);
        }
    }
    printf("\n| ---: |");
    for (int i = 0; i < columns; i++) {
        printf(" ---: |");
    }
    printf("\n");
}

static void print_half(const struct results *results, const struct group *group, uint64_t bytes,
                       bool in_place)
{
    for (int i = 0; i < group->peers; i++) {
        printf(" ");
        print_number(results_median(results, group, group->peer[i], bytes, in_place, FIELD_TIME),
                     " |");
    }
    for (int i = 0; i < group->ours; i++) {
        double ratio = ratio_of(results, group, i, bytes, in_place);
        if (ratio > 0) {
            printf(" **%.2f** |", ratio);
        } else {
            printf(" " MISSING " |");
        }
    }
}

static void print_times(const struct results *results, const struct group *group)
{
    char size[16];
    bool halves[2] = {has_half(results, group, false), has_half(results, group, true)};
    print_head(results, group, halves);
    for (int i = 0; i < group->sizes; i++) {
        write_size(group->size[i], size);
        printf("| %s |", size);
        for (int half = 0; half < 2; half++) {
            if (halves[half]) {
                print_half(results, group, group->size[i], half);
            }
        }
        printf("\n");
    }
}

/* Processor seconds per GiB; p50 / p99. */
static void print_costs_at(const struct results *results, const struct group *group, uint64_t bytes)
{
    for (int i = 0; i < group->peers; i++) {
        double spent =
            results_median(results, group, group->peer[i], bytes, false, FIELD_PROCESSOR);
        printf(" ");
        print_number(bytes ? spent * 1e-6 * 1073741824 / (double)bytes : 0, " |");
    }
    for (int i = 0; i < group->peers; i++) {
        printf(" ");
        print_number(results_median(results, group, group->peer[i], bytes, false, FIELD_P50),
                     " / ");
        print_number(results_median(results, group, group->peer[i], bytes, false, FIELD_P99), " |");
    }
}

static void print_costs(const struct results *results, const struct group *group)
{
    char size[16];
    printf("\n| size |");
    for (int i = 0; i < group->peers; i++) {
        printf(" %s%s |", i ? "" : "CPU s/GiB: ", results->peers.name[group->peer[i]]);
    }
    for (int i = 0; i < group->peers; i++) {
        printf(" %s%s |", i ? "" : "p50 / p99, µs: ", results->peers.name[group->peer[i]]);
    }
    printf("\n| ---: |");
    for (int i = 0; i < 2 * group->peers; i++) {
        printf(" ---: |");
    }
    printf("\n");
    for (int i = 0; i < group->sizes; i++) {
        write_size(group->size[i], size);
        printf("| %s |", size);
        print_costs_at(results, group, group->size[i]);
        printf("\n");
    }
}

/* -- summary ----------------------------------------------------------------------------------- */

struct spread { /* of ratios over sizes and halves, and where the outermost are */
    double ratio[2 * SIZES_MAX];
    uint64_t least_at, most_at;
    int count;
};

static void add_ratio(struct spread *spread, double ratio, uint64_t bytes)
{
    bool least = ratio > 0, most = ratio > 0;
    for (int i = 0; i < spread->count; i++) {
        least &= ratio < spread->ratio[i];
        most &= ratio > spread->ratio[i];
    }
    spread->least_at = least ? bytes : spread->least_at;
    spread->most_at = most ? bytes : spread->most_at;
    if (ratio > 0) {
        spread->ratio[spread->count++] = ratio;
    }
}

static void print_spread(const struct results *results, const struct group *group, const char *what,
                         struct spread *spread)
{
    char low[16], high[16];
    double *ratio = spread->ratio;
    int count = spread->count;
    if (count == 0) {
        return;
    }
    qsort(ratio, (size_t)count, sizeof ratio[0], ascending);
    write_size(spread->least_at, low);
    write_size(spread->most_at, high);
    printf("| %s | %s | %d | %s | %.2f (%s) | %.2f | %.2f (%s) |\n", results->ops.name[group->op],
           results->sections.name[group->section], group->ranks, what, ratio[0], low,
           (ratio[(count - 1) / 2] + ratio[count / 2]) / 2, ratio[count - 1], high);
}

static void print_best_by(const struct results *results, const struct group *group, int ours)
{
    char what[64];
    struct spread spread = {.count = 0};
    for (int i = 0; i < 2 * group->sizes; i++) {
        uint64_t bytes = group->size[i / 2];
        add_ratio(&spread, ratio_of(results, group, ours, bytes, i % 2), bytes);
    }
    snprintf(what, sizeof what, "best / %s", results->peers.name[group->peer[ours]]);
    print_spread(results, group, what, &spread);
}

/* What another way of running ours costs: its time by that of the first. */
static void print_price(const struct results *results, const struct group *group, int ours)
{
    char what[64];
    struct spread spread = {.count = 0};
    for (int i = 0; i < 2 * group->sizes; i++) {
        uint64_t bytes = group->size[i / 2];
        double first = results_median(results, group, group->peer[0], bytes, i % 2, FIELD_TIME);
        double this = results_median(results, group, group->peer[ours], bytes, i % 2, FIELD_TIME);
        add_ratio(&spread, first > 0 ? this / first : 0, bytes);
    }
    snprintf(what, sizeof what, "price: %s / %s", results->peers.name[group->peer[ours]],
             results->peers.name[group->peer[0]]);
    print_spread(results, group, what, &spread);
}

static void print_summary(const struct results *results)
{
    struct group group;
    printf("\n| operation | over | ranks | time / time | least | median | greatest |\n"
           "| --- | --- | ---: | --- | ---: | ---: | ---: |\n");
    for (int i = 0; results_group(results, i, &group); i++) {
        for (int ours = 0; ours < group.ours; ours++) {
            print_best_by(results, &group, ours);
        }
        for (int ours = 1; ours < group.ours; ours++) {
            print_price(results, &group, ours);
        }
    }
}

static bool print_wrong(const struct results *results)
{
    bool any = false;
    for (size_t i = 0; i < results->count; i++) {
        const struct result_line *line = &results->line[i];
        if (line->wrong > 0) {
            printf("%s %s (%s, %s, %d ranks, %" PRIu64 " bytes, round %d)",
                   any ? "," : "* WRONG results:", results->peers.name[line->peer],
                   results->ops.name[line->op], results->sections.name[line->section], line->ranks,
                   line->bytes, line->round);
            any = true;
        }
    }
    printf("%s", any ? "\n" : "");
    return any;
}

static void print_group(const struct results *results, const struct group *group)
{
    bool shm = strcmp(results->sections.name[group->section], "shm") == 0;
    printf("\n### %s, %s, %d ranks\n\n", results->ops.name[group->op],
           shm ? "shared memory" : "TCP on loopback", group->ranks);
    print_times(results, group);
    print_costs(results, group);
}

int main(int argc, char **argv)
{
    struct results results = {.line = NULL};
    struct group group;
    if (argc < 2 || argc > 3 || !results_read(&results, argv[1])) {
        fprintf(stderr, "ratio: %s cannot be read; usage: ratio compare.csv [compare.svg]\n",
                argc < 2 ? "nothing" : argv[1]);
        return 2;
    }
    bool wrong = print_wrong(&results);
    printf(
        "* times are medians over the rounds, in microseconds; best / Gyre is the fastest other's "
        "time by Gyre's: above 1 Gyre is faster\n");
    print_summary(&results);
    for (int i = 0; results_group(&results, i, &group); i++) {
        print_group(&results, &group);
    }
    FILE *svg = argc == 3 ? fopen(argv[2], "we") : NULL;
    if (svg) {
        plot(&results, svg);
        fclose(svg);
    }
    free(results.line);
    return wrong;
}
