/* Many ranks' output on one terminal: whole lines, each with its rank before it.
 *
 * A sink is one of the launcher's own outputs. A tap is one pipe from a rank; it feeds one sink
 * and, if there is one, the rank's log file. No call blocks as long as its descriptor was found
 * ready by poll(2). */
#ifndef GYRE_LAUNCH_CHILDREN_LINES_H
#define GYRE_LAUNCH_CHILDREN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define GYRE_LINE_MAX (64u * 1024) /* a longer line is cut here */
#define GYRE_LAST_MAX 1280         /* characters of a line that are kept: a failure whole */

struct gyre_shown;

struct gyre_sink {
    int fd;
    bool broken; /* the reader has gone: further output is dropped */
    size_t start, end;
    char *bytes;
};

struct gyre_line_tap {
    int fd;     /* read end; -1 once the pipe has ended */
    int log_fd; /* a log that receives the same bytes; -1: none */
    struct gyre_sink *sink;
    struct gyre_shown *shown; /* by all taps; NULL: every line is passed on */
    char prefix[24];          /* "[3] ", "" for none */
    const char *aside;        /* lines that begin with this are kept, not passed on; NULL: none */
    char *kept;               /* those lines, without that beginning, a newline behind each */
    size_t kept_length;
    char last[GYRE_LAST_MAX]; /* the last line that was not blank */
    char *line;               /* the line that has not ended yet */
    size_t length;
};

/* The two init functions return -ENOMEM; deinit takes a zeroed struct, too. The tap owns fd and
 * log_fd from gyre_line_tap_init() on, also when the call fails. */
int gyre_sink_init(struct gyre_sink *sink, int fd);
void gyre_sink_deinit(struct gyre_sink *sink);
int gyre_line_tap_init(struct gyre_line_tap *tap, int fd, int log_fd, struct gyre_sink *sink);
void gyre_line_tap_deinit(struct gyre_line_tap *tap);

/* Keeps lines that begin with `aside` for gyre_line_tap_take(), which cuts off the first of them
 * and returns false where there is none. There is room for those of one read; a line beyond it is
 * lost. -ENOMEM. */
int gyre_line_tap_keep(struct gyre_line_tap *tap, const char *aside);
bool gyre_line_tap_take(struct gyre_line_tap *tap, char line[GYRE_LAST_MAX]);

/* True while the sink has room for the most that one gyre_line_tap_read() may add. */
bool gyre_sink_has_room(const struct gyre_sink *sink);
bool gyre_sink_pending(const struct gyre_sink *sink);

/* Writes as much as a ready descriptor takes. Returns 0, or once, when the reader has gone, -EPIPE
 * or another -errno. */
int gyre_sink_write(struct gyre_sink *sink);

/* Reads once. On the end of the pipe a line without its newline is passed on with one, and fd
 * becomes -1. */
void gyre_line_tap_read(struct gyre_line_tap *tap);

/* Ends the tap as if its pipe had ended, although another process still holds the pipe open. */
void gyre_line_tap_finish(struct gyre_line_tap *tap);

#endif
