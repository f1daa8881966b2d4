/* Descriptors that take whole pieces or none.
 *
 *     piece ──▶ write ──▶ all of it: the file is longer by one piece
 *                    └──▶ a part of it, then ENOSPC: the part is cut off again, the sink is closed
 *
 * So a reader of a file never meets half a line, but for the one that a killed process was writing.
 * A report that appends to such a file ends that line first. Files are opened for appending, so
 * other programs that use them meanwhile (tail, a rotation) move nothing. Tested by
 * tests/unit/report/report_test.c. */
#include "report/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_MS 1000 /* for a terminal or pipe that another process made non-blocking */

/* -- opening ----------------------------------------------------------------------------------- */

static int settle_write(struct gyre_report_sink *sink, int fd, const char *name,
                        struct gyre_trouble *trouble)
{
    struct stat status;
    *sink = (struct gyre_report_sink){.fd = fd, .name = strdup(name)};
    if (!sink->name || fstat(fd, &status) != 0) {
        int error = errno;
        close(fd);
        sink->fd = -1;
        return gyre_trouble_set(trouble, -error, "opening %s: %s", name, strerror(error));
    }
    sink->regular = S_ISREG(status.st_mode);
    sink->length_bytes = sink->regular ? (uint64_t)status.st_size : 0;
    return 0;
}

int gyre_report_sink_open(struct gyre_report_sink *sink, const char *path,
                          struct gyre_trouble *trouble)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0)
        return gyre_trouble_set(trouble, -errno,
                                "opening %s to write: %s; name a file that can be written", path,
                                strerror(errno));
    return settle_write(sink, fd, path, trouble);
}

int gyre_report_sink_borrow(struct gyre_report_sink *sink, int fd, const char *name,
                            struct gyre_trouble *trouble)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return gyre_trouble_set(trouble, -errno, "%s, descriptor %d: %s", name, fd,
                                strerror(errno));
    return settle_write(sink, own, name, trouble);
}

static bool torn(const struct gyre_report_sink *sink)
{
    char last = '\n';
    int fd = open(sink->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t got = fd < 0 ? -1 : pread(fd, &last, 1, (off_t)sink->length_bytes - 1);
    if (fd >= 0)
        close(fd);
    return got == 1 && last != '\n';
}

void gyre_report_sink_begin(struct gyre_report_sink *sink, bool append)
{
    if (!sink->name || sink->status || !sink->regular)
        return;
    if (append && sink->length_bytes > 0 && torn(sink))
        gyre_report_sink_write(sink, "\n", 1);
    if (append)
        return;
    if (ftruncate(sink->fd, 0) != 0)
        sink->status = -errno;
    sink->length_bytes = 0;
}

/* -- writing ----------------------------------------------------------------------------------- */

static bool comes_round(int fd)
{
    struct pollfd way = {.fd = fd, .events = POLLOUT};
    return poll(&way, 1, PATIENCE_MS) > 0;
}

static int write_to_sink(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && (errno == EINTR || (errno == EAGAIN && comes_round(fd))))
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

static void fail_sink(struct gyre_report_sink *sink, int status)
{
    sink->status = status;
    if (sink->regular && ftruncate(sink->fd, (off_t)sink->length_bytes) != 0)
        sink->regular = false; /* the file stays torn; the message names it in any case */
    close(sink->fd);
    sink->fd = -1;
}

void gyre_report_sink_write(struct gyre_report_sink *sink, const void *bytes, size_t length)
{
    if (!sink->name || sink->status)
        return;
    int status = write_to_sink(sink->fd, bytes, length);
    if (status)
        fail_sink(sink, status);
    else
        sink->length_bytes += length;
}

void gyre_report_sink_close(struct gyre_report_sink *sink)
{
    if (sink->name && sink->fd >= 0 && close(sink->fd) != 0 && errno != EINTR && !sink->status)
        sink->status = -errno;
    sink->fd = -1;
}

void gyre_report_sink_deinit(struct gyre_report_sink *sink)
{
    gyre_report_sink_close(sink);
    free(sink->name);
    *sink = (struct gyre_report_sink){.fd = -1};
}
