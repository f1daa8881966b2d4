/* What do many groups in one process cost: time to make, threads, descriptors, memory?
 *
 *     build/bench/groups [GROUPS] [RANKS]       64 groups, 2 ranks unless told otherwise
 *
 * The ranks are processes of this machine, which are in one group already. They make GROUPS more,
 * one after the other: by gyre_init(), in a folder where they meet; then, in fresh processes, by
 * gyre_split_apart(), and by gyre_split(). Each group sums once, so that all of it is made. Rank 0
 * prints the time of a group, what it has added to the process, and the threads that there are. */
#include "base/clock.h"

#include <gyre/gyre.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUPS_MAX = 1024, RANKS_MAX = 64 };

struct process_cost { /* what a process has */
    int64_t ns, kib;
    int threads, descriptors;
};

static int count_entries(const char *folder)
{
    DIR *open = opendir(folder);
    int count = -3; /* ".", ".." and, of descriptors, this one */
    while (open && readdir(open))
        count++;
    if (open)
        closedir(open);
    return count;
}

/* Memory that is only this process's, or shared and counted once. */
static int64_t resident_kib(void)
{
    char line[256];
    long long kib, sum = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %lld", &kib) == 1 || sscanf(line, "RssShmem: %lld", &kib) == 1)
            sum += kib;
    if (file)
        fclose(file);
    return sum;
}

static struct process_cost look(void)
{
    return (struct process_cost){(int64_t)gyre_now_ns(), resident_kib(),
                                 count_entries("/proc/self/task") + 1,
                                 count_entries("/proc/self/fd")};
}

static void fail(const char *what)
{
    fprintf(stderr, "groups: %s: %s\n", what, gyre_error(NULL));
    exit(3);
}

/* -- the ways to make a group ------------------------------------------------------------------ */

struct run {
    int rank, ranks, groups;
    const char *folder;
    struct gyre_comm *whole, *group[GROUPS_MAX];
};

static int join_as(const struct run *run, const char *name, struct gyre_comm **comm)
{
    char root[300];
    struct gyre_options options = GYRE_OPTIONS_INIT;
    snprintf(root, sizeof root, "file://%s", run->folder);
    options.rank = run->rank;
    options.world = run->ranks;
    options.root = root;
    options.job = name;
    return gyre_init(comm, &options);
}

static int join(struct run *run, int number)
{
    char name[32];
    snprintf(name, sizeof name, "group%d", number);
    return join_as(run, name, &run->group[number]);
}

static int split_apart(struct run *run, int number)
{
    return gyre_split_apart(run->whole, 0, 0, &run->group[number]);
}

static int split(struct run *run, int number)
{
    return gyre_split(run->whole, 0, 0, &run->group[number]);
}

static const struct making {
    const char *name;
    int (*make)(struct run *run, int number);
} ways[] = {{"gyre_init", join}, {"gyre_split_apart", split_apart}, {"gyre_split", split}};

static void make_groups(struct run *run, const struct making *way)
{
    for (int i = 0; i < run->groups; i++) {
        int32_t one = 1;
        if (way->make(run, i) || gyre_all_reduce(run->group[i], &one, &one, 1, GYRE_I32, GYRE_SUM))
            fail(way->name);
    }
}

static int be_rank(struct run *run, const struct making *way)
{
    if (join_as(run, "whole", &run->whole))
        fail("gyre_init");
    const struct process_cost before = look();
    make_groups(run, way);
    const struct process_cost after = look();
    for (int i = 0; i < run->groups; i++)
        if (gyre_finalize(run->group[i]))
            fail("gyre_finalize");
    if (run->rank == 0)
        printf("%-16s %8.3f ms %6.1f descriptors %6.0f KiB; %d threads in all\n", way->name,
               (double)(after.ns - before.ns) / 1e6 / run->groups,
               (double)(after.descriptors - before.descriptors) / run->groups,
               (double)(after.kib - before.kib) / run->groups, after.threads);
    return gyre_finalize(run->whole) != 0;
}

static int run_ranks(struct run *run, const struct making *way)
{
    int bad = 0, status;
    for (run->rank = 0; run->rank < run->ranks; run->rank++)
        if (fork() == 0)
            exit(be_rank(run, way));
    while (wait(&status) > 0)
        bad |= status != 0;
    return bad;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/gyre-groups-XXXXXX";
    static struct run run;
    int bad = 0;
    run.groups = argc > 1 ? atoi(argv[1]) : 64;
    run.ranks = argc > 2 ? atoi(argv[2]) : 2;
    if (run.groups < 1 || run.groups > GROUPS_MAX || run.ranks < 1 || run.ranks > RANKS_MAX) {
        fprintf(stderr, "groups: expected 1 … %d groups of 1 … %d ranks\n", GROUPS_MAX, RANKS_MAX);
        return 2;
    }
    if (!mkdtemp(folder))
        return 3;
    run.folder = folder;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        bad |= run_ranks(&run, &ways[i]);
    rmdir(folder);
    return bad;
}
