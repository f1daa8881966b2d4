/* Opens the files of records of a folder. A file that cannot be used is counted, and the others
 * are used. Tested by tests/program/cli/why.c and tests/unit/cli/trace/trace_test.c. */
#include "cli/record_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_ending(const char *name, const char *ending)
{
    const size_t length = strlen(name), own = strlen(ending);
    return length > own && !strcmp(name + length - own, ending);
}

int gyre_record_files_open(struct gyre_record_files *files, struct gyre_trouble *trouble)
{
    files->fd = -1;
    files->folder = opendir(files->path);
    return files->folder
               ? 0
               : gyre_trouble_set(trouble, GYRE_INVALID, "%s: %s", files->path, strerror(errno));
}

int gyre_record_files_next(struct gyre_record_files *files)
{
    const struct dirent *entry;
    while ((entry = readdir(files->folder))) {
        if (!has_ending(entry->d_name, files->ending))
            continue;
        snprintf(files->name, sizeof files->name, "%s", entry->d_name);
        files->fd = openat(dirfd(files->folder), files->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (files->fd >= 0)
            return files->fd;
        gyre_record_files_end(files, strerror(errno));
    }
    return -1;
}

void gyre_record_files_end(struct gyre_record_files *files, const char *fault)
{
    if (files->fd >= 0)
        close(files->fd);
    files->fd = -1;
    files->taken += fault == NULL;
    if (fault && !files->refused++)
        snprintf(files->text, sizeof files->text, "%.160s %s", files->name, fault);
}

int gyre_record_files_close(struct gyre_record_files *files, struct gyre_trouble *trouble)
{
    closedir(files->folder);
    if (files->taken)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s has no %s that can be read%s%s; a job writes its %ss there if %s "
                            "names it",
                            files->path, files->word, files->text[0] ? ": " : "", files->text,
                            files->word, files->variable);
}
