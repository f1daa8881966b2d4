/* What lies in a checkpoint's folder, by name:
 *
 *     step-00000120                   a generation: 8 digits, more where they are needed
 *     step-00000120.part-5f0c99a1     a rest: being written, or being removed, or left by a crash
 *     anything else                   somebody's; never touched
 *
 * A generation appears and disappears by one rename, to and from the name of a rest. Only files
 * that saving writes are removed, and only from real folders; a folder that holds anything more
 * stays. Tested by tests/unit/checkpoint/checkpoint_test.c. */
#include "checkpoint/inside.h"

#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEX "0123456789abcdef"

/* -- names ------------------------------------------------------------------------------------- */

static int checked(int length, const char *folder, struct gyre_trouble *trouble)
{
    if (length > 0 && length < GYRE_GENERATION_PATH_MAX)
        return 0;
    return gyre_trouble_set(trouble, -ENAMETOOLONG, "%.200s…: the path is too long", folder);
}

int gyre_path_inside(char path[GYRE_GENERATION_PATH_MAX], const char *folder, const char *name,
                     struct gyre_trouble *trouble)
{
    return checked(snprintf(path, GYRE_GENERATION_PATH_MAX, "%s/%s", folder, name), folder,
                   trouble);
}

const char *const gyre_generation_file_name[] = {"model.safetensors", "training.safetensors"};

int gyre_generation_path(char path[GYRE_GENERATION_PATH_MAX], const char *folder, uint64_t step,
                         const char *file, struct gyre_trouble *trouble)
{
    int length = snprintf(path, GYRE_GENERATION_PATH_MAX, "%s/step-%08" PRIu64 "%s%s", folder, step,
                          file ? "/" : "", file ? file : "");
    return checked(length, folder, trouble);
}

int gyre_generation_rest_path(char path[GYRE_GENERATION_PATH_MAX], const char *folder,
                              uint64_t step, struct gyre_trouble *trouble)
{
    uint32_t name = 0;
    gyre_random_bytes(&name, sizeof name);
    int length = snprintf(path, GYRE_GENERATION_PATH_MAX, "%s/step-%08" PRIu64 ".part-%08" PRIx32,
                          folder, step, name);
    return checked(length, folder, trouble);
}

/* The step of "step-…", and what follows its digits; false where the name is written otherwise. */
static bool take_step(const char *name, uint64_t *step, const char **rest)
{
    char again[40];
    if (strncmp(name, "step-", 5) != 0)
        return false;
    size_t digits = strspn(name + 5, "0123456789");
    errno = 0;
    *step = strtoull(name + 5, NULL, 10);
    *rest = name + 5 + digits;
    int length = snprintf(again, sizeof again, "step-%08" PRIu64, *step);
    return !errno && digits && (size_t)length == 5 + digits && !strncmp(name, again, 5 + digits);
}

static bool is_hex8(const char *text)
{
    return strspn(text, HEX) == 8 && !text[8];
}

static bool is_rest(const char *name)
{
    uint64_t step;
    const char *rest;
    return take_step(name, &step, &rest) && !strncmp(rest, ".part-", 6) && is_hex8(rest + 6);
}

/* What saving writes into a generation, and what gyre_file_replace() calls it before it is
 * whole. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"model.safetensors", "training.safetensors",
                                        GYRE_MANIFEST_NAME};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(names[i]);
        if (!strncmp(name, names[i], length) &&
            (!name[length] || (name[length] == '.' && is_hex8(name + length + 1))))
            return true;
    }
    return false;
}

/* -- listing ----------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

static int list(DIR *entries, uint64_t **steps, uint64_t *count)
{
    uint64_t step, room = 0;
    const char *rest;
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!take_step(entry->d_name, &step, &rest) || *rest)
            continue;
        if (*count == room) {
            uint64_t *more = realloc(*steps, (room += 16) * sizeof **steps);
            if (!more)
                return -ENOMEM;
            *steps = more;
        }
        (*steps)[(*count)++] = step;
    }
    return 0;
}

int gyre_generation_list(const char *folder, uint64_t **steps, uint64_t *count,
                         struct gyre_trouble *trouble)
{
    *steps = NULL;
    *count = 0;
    DIR *entries = opendir(folder);
    if (!entries && errno == ENOENT)
        return 0;
    int status = entries ? list(entries, steps, count) : -errno;
    if (entries)
        closedir(entries);
    if (status) {
        free(*steps);
        *steps = NULL;
        *count = 0;
        return gyre_trouble_set(trouble, status, "%s: cannot list it: %s", folder,
                                strerror(-status));
    }
    if (*count)
        qsort(*steps, *count, sizeof **steps, newest_first);
    return 0;
}

/* -- removing ---------------------------------------------------------------------------------- */

/* Looks at every entry before the first is removed. */
static int empty(DIR *entries, bool remove)
{
    rewinddir(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        if (!is_ours(entry->d_name))
            return -ENOTEMPTY;
        if (remove && unlinkat(dirfd(entries), entry->d_name, 0))
            return -errno;
    }
    return 0;
}

static DIR *open_real(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !entries)
        close(fd);
    return entries;
}

int gyre_generation_remove_rest(const char *path)
{
    DIR *entries = open_real(path);
    if (!entries)
        return -errno;
    int status = empty(entries, false);
    if (!status)
        status = empty(entries, true);
    closedir(entries);
    return status ? status : rmdir(path) ? -errno : 0;
}

int gyre_generation_remove(const char *folder, uint64_t step)
{
    char path[GYRE_GENERATION_PATH_MAX], rest[GYRE_GENERATION_PATH_MAX];
    int status = gyre_generation_path(path, folder, step, NULL, NULL);
    if (status || (status = gyre_generation_rest_path(rest, folder, step, NULL)))
        return status;
    DIR *entries = open_real(path);
    if (!entries)
        return -errno;
    status = empty(entries, false);
    closedir(entries);
    if (status)
        return status;
    return rename(path, rest) ? -errno : gyre_generation_remove_rest(rest);
}

void gyre_generation_sweep(const char *folder)
{
    char path[GYRE_GENERATION_PATH_MAX];
    DIR *entries = opendir(folder);
    if (!entries)
        return;
    for (struct dirent *entry; (entry = readdir(entries));)
        if (is_rest(entry->d_name) &&
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
            gyre_generation_remove_rest(path);
    closedir(entries);
}
