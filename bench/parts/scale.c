/* What many ranks cost: the time from the start of `gyre run` to the first all-reduce, memory, and
 * descriptors.
 *
 *     build/gyre run -n 1024 build/bench/scale          GYRE_ALGO=ring as you like
 *     build/gyre run --simulate-nodes 1024x1 build/bench/scale          links over TCP
 *
 * Time ends when the slowest rank has the sum. Memory is the proportional set size (PSS) of all
 * ranks together, in which a shared page counts once, after all-reduces of 8 B and 32 KiB. Sums are
 * checked. */
#include <gyre/gyre.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define COUNT 4096

/* Seconds since the machine's start. */
static double since_boot(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* When the launcher began, in the same seconds: field 22 of its stat. The name before it may hold
 * blanks, but no field behind it holds a bracket. */
static double launcher_began(void)
{
    char path[64], text[1024] = "";
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)getppid());
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    char *at = text + length;
    while (at > text && *at != ')')
        at--;
    for (int field = 2; field < 22 && *at; at++)
        field += *at == ' ';
    sscanf(at, "%llu", &ticks);
    if (file)
        fclose(file);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static double pss_bytes(void)
{
    char line[256];
    long long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "Pss: %lld kB", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return (double)kib * 1024;
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = -1; /* the folder's own */
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

/* Sums each rank's number and the element's; true: all elements are right. */
static bool sum_is_right(struct gyre_comm *comm, uint64_t count)
{
    static int64_t data[COUNT];
    const int64_t n = gyre_size(comm), rank = gyre_rank(comm);
    for (uint64_t i = 0; i < count; i++)
        data[i] = rank + (int64_t)i;
    if (gyre_all_reduce(comm, data, data, count, GYRE_I64, GYRE_SUM))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (data[i] != n * (n - 1) / 2 + n * (int64_t)i)
            return false;
    return true;
}

static int measure(struct gyre_comm *comm)
{
    bool right = sum_is_right(comm, 1);
    double first = since_boot() - launcher_began();
    right = right && sum_is_right(comm, COUNT);
    double descriptors = open_descriptors(), memory = pss_bytes();
    double most[] = {first, memory, gyre_rank(comm) ? descriptors : 0};
    int bad = !right || gyre_all_reduce(comm, most, most, 3, GYRE_F64, GYRE_MAX) ||
              gyre_all_reduce(comm, &memory, &memory, 1, GYRE_F64, GYRE_SUM);
    if (!bad && gyre_rank(comm) == 0)
        printf("%d ranks: %.2f s to the first all-reduce; %.0f MiB in all, at most %.1f of a rank; "
               "descriptors: rank 0 %.0f, others at most %.0f\n",
               gyre_size(comm), most[0], memory / (1 << 20), most[1] / (1 << 20), descriptors,
               most[2]);
    if (bad)
        fprintf(stderr, "rank %d: %s\n", gyre_rank(comm),
                right ? gyre_error(comm) : "a sum is wrong, or failed");
    return bad;
}

int main(void)
{
    struct gyre_comm *comm;
    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    int bad = measure(comm);
    return gyre_finalize(comm) || bad;
}
