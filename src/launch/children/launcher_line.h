/* Lines of text between launchers, on a connection that both hold for as long as they run.
 *
 *     signal 15                       end your ranks with this signal
 *     failed 137 rank 2 on gnode7 …   the job has failed: exit code, then the text
 *     lost 1 2 137 rank 4 on b: …     of node 1, 2 ranks are lost: exit code, text
 *     done                            the job is over here; this connection may end
 *
 * Where an elastic job starts lost ranks again:
 *
 *     restart 1 3 a,b                 from the leader: start the rank that was lost first again, as
 *                                     restart 1 of 3; on these hosts there are ranks
 *     forget                          from the leader: its place stays empty
 *     back 1 2 rank 4 on b is …       of node 1, 2 ranks have been started again
 *     well                            to the leader: a rank has ended well
 *     closing                         from the leader: nobody runs any more; start none again
 *     leave                           from the leader: your ranks are to leave the job
 *
 * Where the job may be started again, "done" is node 0's answer for all:
 *
 *     ended                           to node 0: all my ranks have ended
 *     over                            to node 0: I leave, and the job is not to be started again
 *     again                           from node 0: all have ended, and all start the job again
 *
 * An end of the connection before "done", "over" or "again" says that the launcher behind it has
 * gone. */
#ifndef GYRE_LAUNCH_CHILDREN_LAUNCHER_LINE_H
#define GYRE_LAUNCH_CHILDREN_LAUNCHER_LINE_H

#include <stdbool.h>
#include <stddef.h>

struct gyre_launcher_line {
    int fd;                /* -1: none, or closed */
    bool mute;             /* never sends: the other side does not read (standard input) */
    bool done;             /* its end means nothing any more */
    bool ended;            /* the ranks behind it have ended */
    int node, ranks, lost; /* of a launcher that was met: its node, whose ranks are lost in part */
    int awaited;           /* of these lost ranks, which are to be started again */
    char name[192];        /* who speaks, for reports */
    char host[128];        /* where ranks find those of a launcher that was met */
    char line[2048];
    size_t length;
};

enum gyre_word {
    GYRE_WORD_NONE,
    GYRE_WORD_SIGNAL,
    GYRE_WORD_FAILED,
    GYRE_WORD_LOST,
    GYRE_WORD_RESTART,
    GYRE_WORD_FORGET,
    GYRE_WORD_BACK,
    GYRE_WORD_WELL,
    GYRE_WORD_CLOSING,
    GYRE_WORD_LEAVE,
    GYRE_WORD_ENDED,
    GYRE_WORD_OVER,
    GYRE_WORD_AGAIN,
    GYRE_WORD_DONE,
    GYRE_WORD_GONE
};

struct gyre_heard {
    enum gyre_word word;
    int number; /* of the signal or the restart, or the exit code */
    const char
        *text;       /* of the failure, the loss or the return; good until the line is read again */
    int node, ranks; /* that are lost or back; the second also: restarts that there are in all */
};

/* Reads once, without blocking, from a launcher's line that poll(2) calls ready. The caller then
 * takes lines with gyre_launcher_line_next() until NONE is returned. */
void gyre_launcher_line_read(struct gyre_launcher_line *launcher_line);
struct gyre_heard gyre_launcher_line_next(struct gyre_launcher_line *launcher_line);

/* Sends a line without blocking. A line that does not fit into the socket at once closes the
 * connection. */
void gyre_launcher_line_say(struct gyre_launcher_line *launcher_line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gyre_launcher_line_close(struct gyre_launcher_line *launcher_line);

#endif
