/* Many ranks' output on one terminal: whole lines, each with its rank before it.
 *
 * A sink is one of the launcher's own outputs. A tap is one pipe from a rank; it feeds one sink
 * and, if there is one, the rank's log file. No call blocks as long as its descriptor was found
 * ready by poll(2). */
#ifndef GYRE_LAUNCH_LINES_H
#define GYRE_LAUNCH_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define GYRE_LINE_MAX (64u * 1024) /* a longer line is cut here */

struct gyre_sink {
    int fd;
    bool broken; /* the reader has gone: what comes is dropped */
    size_t start, end;
    char *bytes;
};

struct gyre_line_tap {
    int fd;     /* read end; -1 when it ended */
    int log_fd; /* gets the bytes as they came, -1 for none */
    struct gyre_sink *sink;
    char prefix[24];   /* "[3] ", "" for none */
    const char *aside; /* lines that begin with this are not passed on; NULL: none */
    char kept[512];    /* the first line that was not passed on */
    char last[160];    /* beginning of the last line that was not blank */
    char *line;        /* the line that has not ended yet */
    size_t length;
};

/* init allocates, -ENOMEM; deinit takes a zeroed struct too. The tap owns fd and log_fd from init
 * on, also when it fails. */
int gyre_sink_init(struct gyre_sink *sink, int fd);
void gyre_sink_deinit(struct gyre_sink *sink);
int gyre_line_tap_init(struct gyre_line_tap *tap, int fd, int log_fd, struct gyre_sink *sink);
void gyre_line_tap_deinit(struct gyre_line_tap *tap);

/* True while the sink has room for all that one gyre_line_tap_read() may make of its input. */
bool gyre_sink_has_room(const struct gyre_sink *sink);
bool gyre_sink_pending(const struct gyre_sink *sink);

/* Writes what a ready descriptor takes. 0, or -EPIPE (or another -errno) once, when the reader has
 * gone. */
int gyre_sink_write(struct gyre_sink *sink);

/* Reads once. On the end of the pipe a line without its newline is passed on with one, and fd
 * becomes -1. */
void gyre_line_tap_read(struct gyre_line_tap *tap);

/* Ends the tap as the end of its pipe does, for a pipe that another process still holds open. */
void gyre_line_tap_finish(struct gyre_line_tap *tap);

#endif
