/* Puts the records of one job together: other jobs, and older files of a rank, are left aside.
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/read.h"

#include "base/clock.h"
#include "cli/why/sources.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool same_job(const struct gyre_trail *a, const struct gyre_trail *b)
{
    return !memcmp(a->head.job, b->head.job, sizeof a->head.job) && a->head.epoch == b->head.epoch;
}

/* The job that was started last wins where a folder has dumps of several. */
static void drop_others(struct gyre_trails *trails)
{
    const struct gyre_trail *newest = &trails->of[0];
    struct gyre_trail kept;
    uint32_t left = 0;
    for (uint32_t i = 1; i < trails->count; i++)
        if (trails->of[i].head.opened.wall > newest->head.opened.wall)
            newest = &trails->of[i];
    kept = *newest;
    for (uint32_t i = 0; i < trails->count; i++)
        if (same_job(&trails->of[i], &kept)) {
            trails->of[left++] = trails->of[i];
        } else {
            free(trails->of[i].record);
            trails->others++;
        }
    trails->count = left;
    trails->n = kept.head.n;
}

static int by_rank(const void *a, const void *b)
{
    const struct gyre_trail *x = a, *y = b;
    if (x->head.rank != y->head.rank)
        return x->head.rank < y->head.rank ? -1 : 1;
    return x->head.opened.wall > y->head.opened.wall ? -1 : 1;
}

/* Of two files of one rank the newer one stays. */
static void drop_twins(struct gyre_trails *trails)
{
    uint32_t left = 0;
    qsort(trails->of, trails->count, sizeof *trails->of, by_rank);
    for (uint32_t i = 0; i < trails->count; i++)
        if (left && trails->of[left - 1].head.rank == trails->of[i].head.rank)
            free(trails->of[i].record);
        else
            trails->of[left++] = trails->of[i];
    trails->count = left;
}

/* The time of the newest word: now, for a living job. */
static void find_newest(struct gyre_trails *trails)
{
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_trail *trail = &trails->of[i];
        uint64_t at = trail->head.now.wall;
        if (at > trails->beaten)
            trails->beaten = at;
        if (trail->records)
            at = gyre_trail_time(trail, trail->record[trail->records - 1].called);
        trails->at = at > trails->at ? at : trails->at;
    }
    if (trails->at < trails->beaten)
        trails->at = trails->beaten;
    if (trails->living)
        trails->at = gyre_wall_clock_ns();
}

int gyre_trails_read(struct gyre_trails *trails, const char *where, struct gyre_trouble *trouble)
{
    struct stat about;
    *trails = (struct gyre_trails){0};
    bool folder = stat(where, &about) == 0 && S_ISDIR(about.st_mode);
    int status = folder ? gyre_sources_folder(trails, where, trouble)
                        : gyre_sources_processes(trails, where, trouble);
    trails->living = !folder;
    if (status || !trails->count)
        return status;
    drop_others(trails);
    drop_twins(trails);
    find_newest(trails);
    return 0;
}

void gyre_trails_free(struct gyre_trails *trails)
{
    for (uint32_t i = 0; i < trails->count; i++)
        free(trails->of[i].record);
    free(trails->of);
    *trails = (struct gyre_trails){0};
}
