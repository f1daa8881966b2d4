/* Reads by mmap, and replaces files in an order that survives a crash at any point:
 *
 *     write NAME.RANDOM ─▶ fsync it ─▶ rename it to NAME ─▶ fsync the folder
 *         old file is there                              │ new file is there
 *
 * Without the first fsync a crash may leave the new name on an empty file; without the second the
 * old file may come back. Tested by tests/unit/data/safetensors/safetensors_test.c. */
#include "data/files/file.h"

#include "base/disk/regular.h"
#include "base/rng.h"
#include "data/files/cut_short.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_TRIED 16

static int fail_file(const char *path, const char *what, struct gyre_trouble *trouble)
{
    int status = errno ? -errno : -EIO;
    return gyre_trouble_set(trouble, status, "%s: cannot %s: %s", path, what, strerror(-status));
}

/* -- reading ----------------------------------------------------------------------------------- */

static int map_whole(const char *path, int fd, struct gyre_file *file, struct gyre_trouble *trouble)
{
    if (!file->length) {
        file->data = (const uint8_t *)"";
        return 0;
    }
    void *data = mmap(NULL, file->length, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        file->length = 0;
        return fail_file(path, "map it", trouble);
    }
    file->data = data;
    gyre_cut_short_list(path, file->data, file->length);
    return 0;
}

int gyre_file_map(const char *path, struct gyre_file *file, struct gyre_trouble *trouble)
{
    struct stat about;
    int fd = gyre_regular_open(path, 0, &about);
    *file = (struct gyre_file){0};
    if (fd < 0)
        return gyre_regular_refuse(path, fd, trouble);
    file->length = (uint64_t)about.st_size;
    int status = map_whole(path, fd, file, trouble);
    close(fd);
    return status;
}

void gyre_file_unmap(struct gyre_file *file)
{
    if (file->length) {
        gyre_cut_short_drop(file->data);
        munmap((void *)file->data, file->length);
    }
    *file = (struct gyre_file){0};
}

/* -- replacing --------------------------------------------------------------------------------- */

/* Creates a file beside `path` under a name that no other file has, whoever else is writing
 * there. */
static int create_part_file(const char *path, char *part, size_t size, struct gyre_trouble *trouble)
{
    for (int i = 0; i < NAMES_TRIED; i++) {
        uint32_t name = 0;
        gyre_random_bytes(&name, sizeof name);
        if ((size_t)snprintf(part, size, "%s.%08" PRIx32, path, name) >= size)
            return gyre_trouble_set(trouble, -ENAMETOOLONG, "%s: the path is too long", path);
        int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : fail_file(path, "create a file beside it", trouble);
    }
    return fail_file(path, "create a file beside it", trouble);
}

static int fill_parts(const char *path, int fd, const struct iovec *part, uint64_t parts,
                      struct gyre_trouble *trouble)
{
    for (uint64_t i = 0; i < parts; i++)
        if (!gyre_regular_write(fd, part[i].iov_base, part[i].iov_len))
            return fail_file(path, "write to it", trouble);
    return fsync(fd) ? fail_file(path, "have it on the disk", trouble) : 0;
}

int gyre_file_sync_folder(const char *path, struct gyre_trouble *trouble)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: out of memory", path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status = 0;
    /* EINVAL: the file system has nothing to sync */
    if (fd < 0 || (fsync(fd) && errno != EINVAL))
        status = fail_file(folder, "have the folder on the disk", trouble);
    if (fd >= 0)
        close(fd);
    free(folder);
    return status;
}

int gyre_file_replace(const char *path, const struct iovec *part, uint64_t parts,
                      struct gyre_trouble *trouble)
{
    char fresh[4096];
    int fd = create_part_file(path, fresh, sizeof fresh, trouble);
    if (fd < 0)
        return fd;
    int status = fill_parts(path, fd, part, parts, trouble);
    if (close(fd) && !status)
        status = fail_file(path, "close it", trouble);
    if (!status && rename(fresh, path))
        status = fail_file(path, "rename the new file to it", trouble);
    if (status) {
        unlink(fresh);
        return status;
    }
    return gyre_file_sync_folder(path, trouble);
}
