/* Many ranks' output on one terminal, line by line.
 *
 *     rank 0 ──pipe──▶ tap [0] ─┐ whole lines         ready?
 *     rank 1 ──pipe──▶ tap [1] ─┼───────────▶ sink ──────────▶ terminal, file, pipe
 *     rank 2 ──pipe──▶ tap [2] ─┘
 *
 * Invariants: a sink receives only whole lines, so lines of different ranks never mix. Memory is
 * fixed: a tap holds one line of at most GYRE_LINE_MAX, and a tap is not read while its sink is
 * filled beyond a mark. So a slow terminal slows the ranks, whose pipes fill, and costs nothing
 * else.
 *
 * The launcher's output may be a terminal whose O_NONBLOCK flag is shared with the user's shell, so
 * the flag is never set. Writes are cut to PIPE_BUF, which a descriptor that poll(2) calls writable
 * takes at once.
 *
 * Tested by tests/unit/launch/launch_test.c. */
#include "launch/children/lines.h"

#include "launch/children/shown.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most bytes that one read can add: every byte a newline, each line with its prefix, behind a
 * line that waited for its end. */
#define READ_BYTES 8192u
#define READ_GROWTH                                                                                \
    (READ_BYTES * (1 + sizeof(((struct gyre_line_tap *)0)->prefix)) + GYRE_LINE_MAX + 1)
#define SINK_BYTES (2 * READ_GROWTH)
#define KEPT_BYTES (READ_BYTES + GYRE_LAST_MAX) /* lines kept in one read, behind one that waited */

int gyre_sink_init(struct gyre_sink *sink, int fd)
{
    *sink = (struct gyre_sink){.fd = fd, .bytes = malloc(SINK_BYTES)};
    return sink->bytes ? 0 : -ENOMEM;
}

void gyre_sink_deinit(struct gyre_sink *sink)
{
    free(sink->bytes);
    sink->bytes = NULL;
}

bool gyre_sink_has_room(const struct gyre_sink *sink)
{
    return sink->broken || SINK_BYTES - (sink->end - sink->start) >= READ_GROWTH;
}

bool gyre_sink_pending(const struct gyre_sink *sink)
{
    return sink->end > sink->start;
}

static bool writable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    return poll(&poll_fd, 1, 0) == 1;
}

static int sink_break(struct gyre_sink *sink, int status)
{
    sink->broken = true;
    sink->start = sink->end = 0;
    return status;
}

int gyre_sink_write(struct gyre_sink *sink)
{
    while (gyre_sink_pending(sink) && writable(sink->fd)) {
        size_t length = sink->end - sink->start;
        ssize_t count =
            write(sink->fd, sink->bytes + sink->start, length < PIPE_BUF ? length : PIPE_BUF);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            return 0;
        if (count < 0)
            return sink_break(sink, -errno);
        sink->start += (size_t)count;
    }
    if (!gyre_sink_pending(sink))
        sink->start = sink->end = 0;
    return 0;
}

/* Adds bytes for which the caller has checked that there is room. */
static void sink_add(struct gyre_sink *sink, const char *bytes, size_t length)
{
    if (sink->broken)
        return;
    if (sink->end + length > SINK_BYTES) {
        memmove(sink->bytes, sink->bytes + sink->start, sink->end - sink->start);
        sink->end -= sink->start;
        sink->start = 0;
    }
    memcpy(sink->bytes + sink->end, bytes, length);
    sink->end += length;
}

int gyre_line_tap_init(struct gyre_line_tap *tap, int fd, int log_fd, struct gyre_sink *sink)
{
    *tap = (struct gyre_line_tap){
        .fd = fd, .log_fd = log_fd, .sink = sink, .line = malloc(GYRE_LINE_MAX)};
    return tap->line ? 0 : -ENOMEM;
}

void gyre_line_tap_deinit(struct gyre_line_tap *tap)
{
    if (!tap->sink)
        return; /* never initialised */
    if (tap->fd >= 0)
        close(tap->fd);
    if (tap->log_fd >= 0)
        close(tap->log_fd);
    free(tap->line);
    free(tap->kept);
    *tap = (struct gyre_line_tap){.fd = -1, .log_fd = -1};
}

/* A line that is too long is cut between words, if it has any. */
static void keep_line(char to[GYRE_LAST_MAX], const char *line, size_t length)
{
    static const char more[] = " ...";
    const size_t most = GYRE_LAST_MAX - sizeof more;
    size_t kept = length < GYRE_LAST_MAX ? length : most;
    while (kept < length && kept && line[kept] != ' ')
        kept--;
    kept = kept || !length ? kept : most;
    memcpy(to, line, kept);
    strcpy(to + kept, kept < length ? more : "");
}

int gyre_line_tap_keep(struct gyre_line_tap *tap, const char *aside)
{
    tap->kept = malloc(KEPT_BYTES);
    tap->aside = tap->kept ? aside : NULL;
    return tap->kept ? 0 : -ENOMEM;
}

bool gyre_line_tap_take(struct gyre_line_tap *tap, char line[GYRE_LAST_MAX])
{
    char *newline = tap->kept_length ? memchr(tap->kept, '\n', tap->kept_length) : NULL;
    if (!newline)
        return false;
    size_t length = (size_t)(newline - tap->kept);
    memcpy(line, tap->kept, length);
    line[length] = 0;
    tap->kept_length -= length + 1;
    memmove(tap->kept, newline + 1, tap->kept_length);
    return true;
}

static bool is_aside(const struct gyre_line_tap *tap)
{
    size_t length = tap->aside ? strlen(tap->aside) : 0;
    return length && tap->length >= length && !memcmp(tap->line, tap->aside, length);
}

static void put_aside(struct gyre_line_tap *tap)
{
    char line[GYRE_LAST_MAX];
    size_t skipped = strlen(tap->aside);
    keep_line(line, tap->line + skipped, tap->length - skipped);
    size_t length = strlen(line);
    if (length + 1 > KEPT_BYTES - tap->kept_length)
        return;
    memcpy(tap->kept + tap->kept_length, line, length);
    tap->kept[tap->kept_length + length] = '\n';
    tap->kept_length += length + 1;
}

static void show_line(struct gyre_line_tap *tap)
{
    sink_add(tap->sink, tap->prefix, strlen(tap->prefix));
    sink_add(tap->sink, tap->line, tap->length);
    sink_add(tap->sink, "\n", 1);
}

static void pass_line(struct gyre_line_tap *tap)
{
    if (is_aside(tap)) {
        put_aside(tap);
    } else {
        if (!tap->shown || gyre_shown_admit(tap->shown, tap->line, tap->length))
            show_line(tap);
        if (tap->length)
            keep_line(tap->last, tap->line, tap->length);
    }
    tap->length = 0;
}

static void take_bytes(struct gyre_line_tap *tap, const char *bytes, size_t length)
{
    while (length) {
        const char *newline = memchr(bytes, '\n', length);
        size_t piece = newline ? (size_t)(newline - bytes) : length;
        size_t room = GYRE_LINE_MAX - tap->length;
        bool cut = piece > room;
        piece = cut ? room : piece;
        memcpy(tap->line + tap->length, bytes, piece);
        tap->length += piece;
        if (newline || cut)
            pass_line(tap);
        piece += !cut && newline;
        bytes += piece;
        length -= piece;
    }
}

/* Writes to the log. A log that cannot be written (disk full) is closed and does not end the run,
 * whose terminal still works. */
static void log_bytes(struct gyre_line_tap *tap, const char *bytes, size_t length)
{
    while (tap->log_fd >= 0 && length) {
        ssize_t count = write(tap->log_fd, bytes, length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            close(tap->log_fd);
            tap->log_fd = -1;
            return;
        }
        bytes += count;
        length -= (size_t)count;
    }
}

void gyre_line_tap_finish(struct gyre_line_tap *tap)
{
    if (tap->length)
        pass_line(tap);
    if (tap->fd >= 0)
        close(tap->fd);
    tap->fd = -1;
}

void gyre_line_tap_read(struct gyre_line_tap *tap)
{
    char bytes[READ_BYTES];
    ssize_t count = read(tap->fd, bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (count <= 0) {
        gyre_line_tap_finish(tap);
        return;
    }
    log_bytes(tap, bytes, (size_t)count);
    take_bytes(tap, bytes, (size_t)count);
}
