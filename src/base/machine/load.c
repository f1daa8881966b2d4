/* The kernel's counters, read twice.
 *
 *     /proc/stat        ticks of all cores: busy, idle, stolen by the hypervisor
 *     /proc/N/stat      ticks of process N
 *     getrusage(2)      time of this process, and of its children that have ended
 *
 * What the machine was busy with, less what the job's own processes took, is other people's load.
 * A twentieth of the machine is always busy somewhere; up to that the machine counts as quiet. */
#include "base/machine/load.h"

#include "base/clock.h"
#include "base/log.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define QUIET_SHARE 0.05 /* of a machine's cores */
#define QUIET_CORES 0.25 /* at least */
#define NAME_MOST   16   /* of a process */

static FILE *open_below(const char *root, const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    return fopen(full, "re");
}

/* -- one look ---------------------------------------------------------------------------------- */

/* "cpu  user nice system idle iowait irq softirq steal guest …"; guest time is part of user's. */
static void read_ticks(const char *root, struct gyre_load_look *look)
{
    char line[512];
    unsigned long long t[8] = {0};
    FILE *file = open_below(root, "/proc/stat");
    if (!file)
        return;
    while (fgets(line, sizeof line, file) && !strncmp(line, "cpu", 3))
        if (isdigit((unsigned char)line[3]))
            look->cores++;
        else if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3,
                        t + 4, t + 5, t + 6, t + 7) == 8) {
            look->busy = t[0] + t[1] + t[2] + t[5] + t[6];
            look->stolen = t[7];
            look->all = look->busy + look->stolen + t[3] + t[4];
        }
    fclose(file);
}

/* Names are their processes' own choice: what a terminal might obey is not passed on. */
static void make_printable(char *name)
{
    for (; *name; name++)
        *name = isprint((unsigned char)*name) ? *name : '?';
}

/* "812 (cc1 plus) R 1 …": the name may hold anything. False where the process has gone. */
static bool read_process_ticks(const char *root, int pid, char name[NAME_MOST + 1], uint64_t *ticks)
{
    char path[64], line[512] = "";
    unsigned long long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = open_below(root, path);
    if (!file)
        return false;
    (void)!fgets(line, sizeof line, file);
    fclose(file);
    char *open = strchr(line, '('), *close = strrchr(line, ')');
    if (!open || !close || close < open ||
        sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
               &kernel) != 2)
        return false;
    snprintf(name, NAME_MOST + 1, "%.*s", (int)(close - open - 1), open + 1);
    make_printable(name);
    *ticks = user + kernel;
    return true;
}

static void read_processes(const char *root, struct gyre_load_look *look)
{
    char path[512], name[NAME_MOST + 1];
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/proc", root);
    DIR *folder = opendir(path);
    while (folder && look->processes < GYRE_LOAD_PROCESSES && (entry = readdir(folder))) {
        struct gyre_load_process *process = &look->process[look->processes];
        process->pid = atoi(entry->d_name);
        look->processes +=
            process->pid > 0 && read_process_ticks(root, process->pid, name, &process->ticks);
    }
    if (folder)
        closedir(folder);
}

static uint64_t count_hot(const char *root, uint32_t cores)
{
    uint64_t sum = 0;
    for (uint32_t cpu = 0; cpu < cores; cpu++) {
        char path[96];
        unsigned long long count = 0;
        snprintf(path, sizeof path,
                 "/sys/devices/system/cpu/cpu%u/thermal_throttle/core_throttle_count", cpu);
        FILE *file = open_below(root, path);
        if (!file)
            continue;
        sum += fscanf(file, "%llu", &count) == 1 ? count : 0;
        fclose(file);
    }
    return sum;
}

static uint64_t used_ns(int who)
{
    struct rusage used = {0};
    getrusage(who, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * GYRE_SECOND +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

void gyre_load_look(const char *root, struct gyre_load_look *look)
{
    memset(look, 0, sizeof *look);
    look->at_ns = gyre_now_ns();
    read_ticks(root, look);
    look->own_ns = used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN);
    read_processes(root, look);
    look->hot = count_hot(root, look->cores);
}

/* -- between two ------------------------------------------------------------------------------- */

static uint64_t ticks_before(const struct gyre_load_look *look, int pid)
{
    for (uint32_t i = 0; i < look->processes; i++)
        if (look->process[i].pid == pid)
            return look->process[i].ticks;
    return 0;
}

/* The process that took most since the first look, if that was a quarter of what others took; a
 * process that is younger took all it has. */
static void find_busiest(const char *root, const struct gyre_load_look *from,
                         const struct gyre_load_look *to, struct gyre_load *load)
{
    char own[NAME_MOST + 1] = "", name[NAME_MOST + 1];
    uint64_t ticks, tick_ns = GYRE_SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t busy = to->busy - from->busy, mine = (to->own_ns - from->own_ns) / tick_ns;
    uint64_t most = busy > mine ? (busy - mine) / 4 : 0;
    read_process_ticks(root, getpid(), own, &ticks);
    for (uint32_t i = 0; i < to->processes; i++) {
        int pid = to->process[i].pid;
        uint64_t before = ticks_before(from, pid), now = to->process[i].ticks;
        uint64_t took = now > before ? now - before : 0;
        if (took <= most || !read_process_ticks(root, pid, name, &ticks) || !strcmp(name, own))
            continue;
        most = took;
        snprintf(load->busiest, sizeof load->busiest, "%s, pid %d", name, pid);
    }
}

static double read_average(const char *root)
{
    double average = 0;
    FILE *file = open_below(root, "/proc/loadavg");
    if (file && fscanf(file, "%lf", &average) != 1)
        average = 0;
    if (file)
        fclose(file);
    return average;
}

void gyre_load_between(const char *root, const struct gyre_load_look *from,
                       const struct gyre_load_look *to, struct gyre_load *load)
{
    double all = (double)(to->all - from->all), ns = (double)(to->at_ns - from->at_ns);
    memset(load, 0, sizeof *load);
    snprintf(load->host, sizeof load->host, "%s", gyre_host_name());
    if (to->all <= from->all || to->busy < from->busy || ns <= 0)
        return;
    load->cores = to->cores;
    load->busy = load->cores * (double)(to->busy - from->busy) / all;
    load->stolen =
        to->stolen > from->stolen ? load->cores * (double)(to->stolen - from->stolen) / all : 0;
    load->own = (double)(to->own_ns - from->own_ns) / ns;
    load->average = read_average(root);
    load->hot = to->hot > from->hot ? to->hot - from->hot : 0;
    find_busiest(root, from, to, load);
}

/* -- telling ----------------------------------------------------------------------------------- */

double gyre_load_of_others(const struct gyre_load *load, int n, int i)
{
    double busy = load[i].busy;
    for (int k = 0; k < n; k++)
        if (!strcmp(load[k].host, load[i].host) && load[k].busy > busy)
            busy = load[k].busy;
    for (int k = 0; k < n; k++)
        if (!strcmp(load[k].host, load[i].host))
            busy -= load[k].own;
    return busy > 0 ? busy : 0;
}

static double quiet(const struct gyre_load *load)
{
    return load->cores * QUIET_SHARE > QUIET_CORES ? load->cores * QUIET_SHARE : QUIET_CORES;
}

/* How many times as much as a quiet machine has; up to 1 is quiet. */
static double disturbance(const struct gyre_load *load, int n, int i)
{
    double others = load[i].cores > 0 ? gyre_load_of_others(load, n, i) / quiet(&load[i]) : 0;
    double stolen = load[i].cores > 0 ? load[i].stolen / quiet(&load[i]) : 0;
    double worst = others > stolen ? others : stolen;
    return load[i].hot && worst <= 1 ? 1.5 : worst;
}

static void add_words(char *text, size_t size, const char *words)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", words);
}

static void tell_one(const struct gyre_load *load, double others, char *text, size_t size)
{
    char words[160];
    *text = 0;
    if (others > quiet(load)) {
        snprintf(words, sizeof words, "on %s other processes took %.1f of %.0f cores%s%s%s",
                 load->host, others, load->cores, *load->busiest ? " (above all " : "",
                 load->busiest, *load->busiest ? ")" : "");
        add_words(text, size, words);
    }
    if (load->stolen > quiet(load)) {
        snprintf(words, sizeof words, "the hypervisor kept %.1f of %.0f cores from %s",
                 load->stolen, load->cores, load->host);
        add_words(text, size, words);
    }
    if (load->hot) {
        snprintf(words, sizeof words, "cores of %s were slowed %llu times because they were hot",
                 load->host, (unsigned long long)load->hot);
        add_words(text, size, words);
    }
    snprintf(words, sizeof words, "load average %.1f", load->average);
    add_words(text, size, words);
}

bool gyre_load_tell(const struct gyre_load *load, int n, char *text, size_t size)
{
    int worst = 0;
    *text = 0;
    for (int i = 1; i < n; i++)
        worst = disturbance(load, n, i) > disturbance(load, n, worst) ? i : worst;
    if (n < 1 || disturbance(load, n, worst) <= 1)
        return false;
    tell_one(&load[worst], gyre_load_of_others(load, n, worst), text, size);
    return true;
}
