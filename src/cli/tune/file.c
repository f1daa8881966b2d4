/* gyre tune's file: read what is there, replace what was measured, replace the whole, so
 * that nobody ever reads half a file. Tested by tests/program/cli/tune.c. */
#include "cli/tune/inside.h"

#include "base/disk/regular.h"
#include "data/files/file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 16384

/* The line of /proc/cpuinfo that names the processor. */
static void processor(char *name, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(name, size, "unknown processor");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        snprintf(name, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

/* Adds the comment lines "# kind: …" of the old file whose kind was not measured now. */
static size_t keep_remarks(FILE *old, uint32_t kinds, char *text, size_t length)
{
    char line[512];
    while (old && fgets(line, sizeof line, old))
        for (int kind = 0; kind < GYRE_LINK_KINDS; kind++) {
            size_t name = strlen(gyre_link_kind_name[kind]);
            if (!(kinds & 1u << kind) && !strncmp(line, "# ", 2) && line[2 + name] == ':' &&
                !strncmp(line + 2, gyre_link_kind_name[kind], name) &&
                length + strlen(line) < TEXT_MAX / 2)
                length += (size_t)snprintf(text + length, TEXT_MAX - length, "%s", line);
        }
    return length;
}

static void describe_quality(const struct gyre_measured *measured, char *text, size_t size)
{
    if (*measured->load)
        snprintf(text, size, "under load: %s", measured->load);
    else
        snprintf(text, size, "off by %d %%", measured->error_percent);
}

static size_t add_remarks(const struct gyre_measured *measured, char *text, size_t length)
{
    char cpu[128], host[64] = "?", date[32], quality[320];
    time_t now = time(NULL);
    processor(cpu, sizeof cpu);
    describe_quality(measured, quality, sizeof quality);
    gethostname(host, sizeof host - 1);
    strftime(date, sizeof date, "%F", gmtime(&now));
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++)
        if (measured->kinds & 1u << kind)
            length += (size_t)snprintf(text + length, TEXT_MAX - length,
                                       "# %s: %d ranks on %d node%s, %s, %ld cores of %s, %s, "
                                       "%s\n",
                                       gyre_link_kind_name[kind], measured->ranks, measured->nodes,
                                       measured->nodes > 1 ? "s" : "", host,
                                       sysconf(_SC_NPROCESSORS_ONLN), cpu, date, quality);
    return length;
}

/* Prices that are there already. */
struct old_prices {
    FILE *file; /* NULL: there are none */
    struct gyre_tuning tuning;
    uint32_t kinds;
};

static int open_old(const char *path, struct old_prices *old, struct gyre_trouble *trouble)
{
    struct stat about;
    int fd = gyre_regular_open(path, 0, &about);
    *old = (struct old_prices){.file = fd >= 0 ? fdopen(fd, "r") : NULL,
                               .tuning = gyre_tuning_built_in};
    int status = fd == -ENOENT ? 0 : gyre_tuning_read(path, &old->tuning, &old->kinds, trouble);
    if (status && old->file)
        fclose(old->file);
    return status;
}

int gyre_tune_check(const char *path, struct gyre_trouble *trouble)
{
    struct old_prices old;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!*path)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--out is empty: expected a file");
    int status = open_old(path, &old, trouble);
    if (status)
        return status;
    if (old.file)
        fclose(old.file);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    if (access(folder, W_OK))
        return gyre_trouble_set(trouble, -errno, "%s: cannot create a file beside it: %s", path,
                                strerror(errno));
    return 0;
}

int gyre_tune_write(const char *path, const struct gyre_measured *measured,
                    struct gyre_trouble *trouble)
{
    char text[TEXT_MAX] = "# Prices of Gyre's links and folds, written by `gyre tune`; name this "
                          "file in GYRE_TUNE_FILE.\n";
    struct old_prices old;
    int status = open_old(path, &old, trouble);
    if (status)
        return status;
    struct gyre_tuning merged = old.tuning;
    size_t length = add_remarks(measured, text, strlen(text));
    length = keep_remarks(old.file, measured->kinds, text, length);
    gyre_tuning_take(&merged, &measured->tuning, measured->kinds);
    if (measured->kinds & ~(1u << GYRE_LINK_MAPPED | 1u << GYRE_LINK_NETWORK))
        merged.fold_kib_ps = measured->tuning.fold_kib_ps;
    if (measured->kinds & 1u << GYRE_LINK_LOOPBACK) {
        merged.window_kib = measured->tuning.window_kib;
        merged.spill_percent = measured->tuning.spill_percent;
    }
    gyre_tuning_format(text + length, sizeof text - length, &merged, old.kinds | measured->kinds);
    if (old.file)
        fclose(old.file);
    return gyre_file_replace(path, &(struct iovec){text, strlen(text)}, 1, trouble);
}
