/* Finds records: in a folder of dumps, or among the descriptors of this user's processes, as the
 * kernel lets nobody else look there. Tested by tests/program/cli/why.c. */
#include "cli/why/sources.h"

#include "base/clock.h"
#include "cli/record_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int keep_trail(struct gyre_trails *trails, const struct gyre_trail *trail,
                      struct gyre_trouble *trouble)
{
    if (trails->count == GYRE_TRAILS_MAX)
        return 0;
    struct gyre_trail *more = realloc(trails->of, (trails->count + 1) * sizeof *more);
    if (!more)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the records of %u ranks",
                                trails->count + 1);
    trails->of = more;
    trails->of[trails->count++] = *trail;
    return 0;
}

/* -- a folder ---------------------------------------------------------------------------------- */

int gyre_sources_folder(struct gyre_trails *trails, const char *path, struct gyre_trouble *trouble)
{
    struct gyre_record_files files = {
        .path = path, .ending = ".gyrerec", .word = "dump", .variable = "GYRE_DUMP"};
    int fd, status = gyre_record_files_open(&files, trouble);
    if (status)
        return status;
    while (!status && (fd = gyre_record_files_next(&files)) >= 0) {
        struct gyre_trail trail = {0};
        const char *fault = gyre_trail_open(fd, &trail);
        gyre_record_files_end(&files, fault);
        status = fault ? 0 : keep_trail(trails, &trail, trouble);
    }
    trails->torn = files.refused;
    memcpy(trails->text, files.text, sizeof trails->text);
    int found = gyre_record_files_close(&files, status ? NULL : trouble);
    return status ? status : found;
}

/* -- processes --------------------------------------------------------------------------------- */

static bool is_all_digits(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

/* Reads a small file of /proc; the text ends with a NUL. False: there is none. */
static bool read_proc_file(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, room - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The state of a thread as the kernel tells it: R, S, D, T, t, Z; 0: it has ended. */
static char thread_state(const char *path)
{
    char text[512];
    const char *end = read_proc_file(path, text, sizeof text) ? strrchr(text, ')') : NULL;
    return end && end[1] ? end[2] : 0;
}

/* Reads how long the rank's thread has run, and has waited for a core, until now: whoever lacks a
 * core writes its own head late. */
static void read_times(const char *pid, struct gyre_trail *trail)
{
    char path[80], text[128];
    unsigned long long ran, delayed;
    snprintf(path, sizeof path, "/proc/%.20s/task/%u/schedstat", pid, trail->head.thread);
    if (!read_proc_file(path, text, sizeof text) || sscanf(text, "%llu %llu", &ran, &delayed) != 2)
        return;
    trail->head.thread_now = (struct gyre_record_thread){gyre_now_ns(), ran, delayed};
}

/* Notes whether a process is stopped, and whether a thread of it runs or waits for a core. */
static void look_at_threads(const char *pid, struct gyre_trail *trail)
{
    char path[80];
    const struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    const char state = thread_state(path);
    trail->stopped = state == 'T' || state == 't';
    snprintf(path, sizeof path, "/proc/%.20s/task", pid);
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/stat", pid, entry->d_name);
        trail->ready |= is_all_digits(entry->d_name) && thread_state(path) == 'R';
    }
    if (folder)
        closedir(folder);
}

static bool answers_to(const struct gyre_trail *trail, const char *name)
{
    char id[33], pid[16];
    for (int i = 0; i < 16; i++)
        snprintf(id + 2 * i, 3, "%02x", trail->head.job[i]);
    snprintf(pid, sizeof pid, "%u", trail->head.pid);
    return !strcmp(pid, name) || !strcmp(trail->head.name, name) ||
           (strlen(name) >= 4 && !strncmp(id, name, strlen(name)));
}

/* Whether a process is the one that has written records: a launcher, or a shell before a rank,
 * holds the file of records too. A rank knows its number in its own namespace, which NSpid names
 * last. */
static bool has_written(const char *pid, uint32_t writer)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    /* NSpid: 812 1 */
    char *line = read_proc_file(path, text, sizeof text) ? strstr(text, "\nNSpid:") : NULL;
    if (!line)
        return true; /* nobody tells */
    line[1 + strcspn(line + 1, "\n")] = '\0';
    const char *last = line + strlen(line);
    while (last > line && last[-1] >= '0' && last[-1] <= '9')
        last--;
    return strtoul(last, NULL, 10) == writer;
}

/* Reads the records behind one descriptor of a process, if it has some of its own. */
static int take_records_at(struct gyre_trails *trails, int folder, const char *fd_name,
                           const char *pid, struct gyre_trouble *trouble)
{
    char link[64] = "";
    struct gyre_trail trail = {.living = true};
    if (readlinkat(folder, fd_name, link, sizeof link - 1) <= 0 ||
        strncmp(link, "/memfd:gyre ", 12) != 0)
        return 0;
    int fd = openat(folder, fd_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    bool readable = gyre_trail_open(fd, &trail) == NULL;
    close(fd);
    if (!readable || !has_written(pid, trail.head.pid)) {
        free(trail.record);
        return 0;
    }
    look_at_threads(pid, &trail);
    read_times(pid, &trail);
    return keep_trail(trails, &trail, trouble);
}

static int take_process(struct gyre_trails *trails, const char *pid, struct gyre_trouble *trouble)
{
    char path[64];
    struct stat about;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    if (stat(path, &about) || about.st_uid != geteuid())
        return 0;
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int status = 0;
    while (folder && !status && (entry = readdir(folder)))
        if (is_all_digits(entry->d_name))
            status = take_records_at(trails, dirfd(folder), entry->d_name, pid, trouble);
    if (folder)
        closedir(folder);
    return status;
}

/* Keeps the ranks of the job that is asked for: that of the first rank which answers to it. */
static void keep_asked(struct gyre_trails *trails, const char *name)
{
    struct gyre_trail asked;
    uint32_t left = 0, found = 0;
    while (found < trails->count && !answers_to(&trails->of[found], name))
        found++;
    if (found < trails->count)
        asked = trails->of[found];
    for (uint32_t i = 0; i < trails->count; i++)
        if (found < trails->count &&
            !memcmp(trails->of[i].head.job, asked.head.job, sizeof asked.head.job))
            trails->of[left++] = trails->of[i];
        else
            free(trails->of[i].record);
    trails->count = left;
}

static int none_answers(uint32_t jobs, const char *name, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "no process of yours on this machine is a rank of a job '%.64s'; of %u "
                            "ranks here none answers: give the job's name, its id or the id of one "
                            "of its processes, or the folder of its dumps",
                            name, jobs);
}

int gyre_sources_processes(struct gyre_trails *trails, const char *name,
                           struct gyre_trouble *trouble)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    int status = 0;
    while (folder && !status && (entry = readdir(folder)))
        if (is_all_digits(entry->d_name))
            status = take_process(trails, entry->d_name, trouble);
    if (folder)
        closedir(folder);
    uint32_t seen = trails->count;
    if (!status)
        keep_asked(trails, name);
    return status || trails->count ? status : none_answers(seen, name, trouble);
}
