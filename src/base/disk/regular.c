/* Opens and reads regular files. O_NONBLOCK keeps an open from waiting for the other end of a FIFO;
 * reads of a regular file do not heed it. */
#include "base/disk/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gyre_regular_open(const char *path, int flags, struct stat *about)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    if (fd < 0)
        return -errno;
    int status = fstat(fd, about) ? -errno : S_ISREG(about->st_mode) ? 0 : GYRE_INVALID;
    if (!status)
        return fd;
    close(fd);
    return status;
}

int gyre_regular_refuse(const char *path, int status, struct gyre_trouble *trouble)
{
    if (status == GYRE_INVALID)
        return gyre_trouble_set(trouble, status, "%s: is not a regular file", path);
    return gyre_trouble_set(trouble, status, "%s: cannot open it: %s", path, strerror(-status));
}

/* Fills `content` to the end of the file or of the room; the bytes read, or -errno. */
static int64_t fill_content(int fd, char *content, uint64_t room)
{
    uint64_t used = 0;
    while (used < room) {
        ssize_t got = read(fd, content + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (uint64_t)got;
    }
    return (int64_t)used;
}

static int read_content(int fd, const char *path, uint64_t room, char **content, uint64_t *length,
                        struct gyre_trouble *trouble)
{
    char *text = malloc(room + 1);
    if (!text)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory for its %" PRIu64 " bytes", path,
                                room);
    int64_t got = fill_content(fd, text, room);
    if (got < 0) {
        free(text);
        return gyre_trouble_set(trouble, (int)got, "%s: cannot read it: %s", path,
                                strerror((int)-got));
    }
    text[got] = '\0';
    *content = text;
    *length = (uint64_t)got;
    return 0;
}

int gyre_regular_read(const char *path, uint64_t most, char **content, uint64_t *length,
                      struct gyre_trouble *trouble)
{
    struct stat about;
    int fd = gyre_regular_open(path, 0, &about);
    *content = NULL;
    *length = 0;
    if (fd < 0)
        return gyre_regular_refuse(path, fd, trouble);
    uint64_t size = (uint64_t)about.st_size;
    int status =
        size > most ? gyre_trouble_set(trouble, GYRE_INVALID,
                                       "%s: has %" PRIu64 " bytes, at most %" PRIu64 " are allowed",
                                       path, size, most)
                    : read_content(fd, path, size, content, length, trouble);
    close(fd);
    return status;
}

bool gyre_regular_write(int fd, const void *from, size_t length)
{
    const char *at = from;
    while (length) {
        const ssize_t wrote = write(fd, at, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote == 0)
            errno = ENOSPC;
        if (wrote <= 0)
            return false;
        at += wrote;
        length -= (size_t)wrote;
    }
    return true;
}

bool gyre_has_seals(int fd, int seals)
{
    int found = fcntl(fd, F_GET_SEALS);
    return found >= 0 && (found & seals) == seals;
}
