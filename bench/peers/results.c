/* Reading the lines, sorting them into groups, and medians over rounds.
 *
 * There are a few thousand lines at most and a few hundred cells are asked for, so every question
 * goes through all lines: no index that could be wrong. */
#include "results.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OURS    "Gyre"
#define COLUMNS 16

/* -- reading ----------------------------------------------------------------------------------- */

static int find_name(struct names *names, const char *name)
{
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->name[i], name) == 0) {
            return i;
        }
    }
    if (names->count == NAMES_MAX) {
        fprintf(stderr, "ratio: %s: more than %d names\n", name, NAMES_MAX);
        exit(2);
    }
    snprintf(names->name[names->count], sizeof names->name[0], "%s", name);
    return names->count++;
}

static struct result_line *add_line(struct results *results)
{
    if (results->count == results->room) {
        results->room = results->room ? 2 * results->room : 256;
        results->line = realloc(results->line, results->room * sizeof *results->line);
        if (!results->line) {
            fprintf(stderr, "ratio: no memory for %zu lines\n", results->room);
            exit(2);
        }
    }
    return &results->line[results->count++];
}

/* section,op,ranks,bytes,peer,round, then time,wrong,p50,p99,processor of each half */
static void take_line(struct results *results, char *word[COLUMNS])
{
    static const int place[FIELDS] = {0, 2, 3, 4};
    struct result_line *line = add_line(results);
    *line = (struct result_line){.section = find_name(&results->sections, word[0]),
                                 .op = find_name(&results->ops, word[1]),
                                 .peer = find_name(&results->peers, word[4]),
                                 .ranks = atoi(word[2]),
                                 .round = atoi(word[5]),
                                 .bytes = strtoull(word[3], NULL, 10),
                                 .wrong = atof(word[7]) + atof(word[12])};
    for (int field = 0; field < FIELDS; field++) {
        line->value[0][field] = atof(word[6 + place[field]]);
        line->value[1][field] = atof(word[11 + place[field]]);
    }
}

bool results_read(struct results *results, const char *path)
{
    char text[512];
    FILE *file = fopen(path, "re");
    for (int number = 1; file && fgets(text, sizeof text, file); number++) {
        char *word[COLUMNS], *rest = NULL;
        int count = 0;
        text[strcspn(text, "\n")] = '\0';
        for (char *at = strtok_r(text, ",", &rest); at && count < COLUMNS;
             at = strtok_r(NULL, ",", &rest)) {
            word[count++] = at;
        }
        if (count != COLUMNS) {
            fprintf(stderr, "ratio: %s line %d: %d columns, expected %d\n", path, number, count,
                    COLUMNS);
            exit(2);
        }
        if (number > 1) {
            take_line(results, word);
        }
    }
    return file && fclose(file) == 0;
}

/* -- groups ------------------------------------------------------------------------------------ */

static bool same_group(const struct result_line *a, const struct result_line *b)
{
    return a->section == b->section && a->op == b->op && a->ranks == b->ranks;
}

/* The line with which the i-th group begins. */
static const struct result_line *first_of(const struct results *results, int wanted)
{
    for (size_t i = 0; i < results->count; i++) {
        const struct result_line *line = &results->line[i];
        size_t earlier = 0;
        while (!same_group(&results->line[earlier], line)) {
            earlier++;
        }
        if (earlier == i && wanted-- == 0) {
            return line;
        }
    }
    return NULL;
}

static bool is_ours(const struct results *results, int peer)
{
    return strncmp(results->peers.name[peer], OURS, strlen(OURS)) == 0;
}

static void add_size(struct group *group, uint64_t bytes)
{
    for (int i = 0; i < group->sizes; i++) {
        if (group->size[i] == bytes) {
            return;
        }
    }
    if (group->sizes < SIZES_MAX) {
        group->size[group->sizes++] = bytes;
    }
}

static void add_peer(const struct results *results, struct group *group, int peer)
{
    for (int i = 0; i < group->peers; i++) {
        if (group->peer[i] == peer) {
            return;
        }
    }
    group->peer[group->peers++] = peer;
    group->ours += is_ours(results, peer);
}

bool results_group(const struct results *results, int i, struct group *group)
{
    const struct result_line *first = first_of(results, i);
    if (!first) {
        return false;
    }
    *group = (struct group){first->section, first->op, first->ranks, .sizes = 0};
    for (int ours = 1; ours >= 0; ours--) {
        for (size_t at = 0; at < results->count; at++) {
            const struct result_line *line = &results->line[at];
            if (same_group(line, first) && is_ours(results, line->peer) == ours) {
                add_size(group, line->bytes);
                add_peer(results, group, line->peer);
            }
        }
    }
    return true;
}

int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double results_median(const struct results *results, const struct group *group, int peer,
                      uint64_t bytes, bool in_place, enum field field)
{
    double values[1000];
    int count = 0;
    for (size_t i = 0; i < results->count && count < 1000; i++) {
        const struct result_line *line = &results->line[i];
        bool fits = line->section == group->section && line->op == group->op &&
                    line->ranks == group->ranks && line->peer == peer && line->bytes == bytes;
        if (fits && line->value[in_place][field] > 0) {
            values[count++] = line->value[in_place][field];
        }
    }
    qsort(values, (size_t)count, sizeof values[0], ascending);
    return count == 0 ? 0 : (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double op_bus_factor(const char *op, int n)
{
    static const char *const whole[] = {"broadcast", "reduce", "sendrecv"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (strcmp(op, whole[i]) == 0) {
            return 1;
        }
    }
    return strcmp(op, "all_reduce") == 0 ? 2.0 * (n - 1) / n : (n - 1.0) / n;
}

void write_size(uint64_t bytes, char text[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 16, "%" PRIu64 " %s", bytes, units[unit]);
}
