/* Folders on the disk. */
#include "base/disk/folder.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static int fail(const char *path, int error, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, -error, "cannot make folder '%s': %s", path, strerror(error));
}

int gyre_folder_make(const char *path, mode_t mode, struct gyre_trouble *trouble)
{
    char part[PATH_MAX];
    struct stat about;
    size_t length = strlen(path);
    if (length >= sizeof part)
        return fail(path, ENAMETOOLONG, trouble);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return fail(part, errno, trouble);
    }
    if (stat(path, &about) != 0)
        return fail(path, errno, trouble);
    return S_ISDIR(about.st_mode) ? 0 : fail(path, ENOTDIR, trouble);
}
