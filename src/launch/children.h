/* All children of one launcher, watched until the last has ended.
 *
 * The caller creates the set, spawns into all->child[0 … children), adds lines to the launchers it
 * talks to, and lets gyre_children_watch() run the rest: output, signals, the first failure and the
 * orderly end of everybody else. */
#ifndef GYRE_LAUNCH_CHILDREN_H
#define GYRE_LAUNCH_CHILDREN_H

#include "launch/child.h"
#include "launch/launcher_line.h"

#include <poll.h>
#include <signal.h>

/* A rank that exits with a code may be the echo of one that died: for so long, the latter replaces
 * it as the cause. */
#define GYRE_CHILDREN_DOUBT_MS 200
/* After a failure the others may still tell what they saw … */
#define GYRE_CHILDREN_LAST_WORDS_MS 1000
/* … then they are asked to end, and this long after they are killed. */
#define GYRE_CHILDREN_TERM_MS 5000
#define GYRE_REPORT_PREFIX    "gyre run: "

enum gyre_children_phase {
    GYRE_CHILDREN_RUNS,
    GYRE_CHILDREN_DOUBTS,
    GYRE_CHILDREN_LAST_WORDS,
    GYRE_CHILDREN_ENDS,
    GYRE_CHILDREN_KILLED
};

struct gyre_first_failure { /* the first failure; code 0: none */
    int code;
    int child;      /* whose exit code is still to come, -1: none */
    bool announced; /* to the other launchers */
    bool suspected; /* a mere exit code, which nothing else took the place of */
    char text[768];
};

struct gyre_children {
    struct gyre_process_group group;
    struct gyre_sink out, err;
    struct gyre_child *child;
    int children, alive;
    const char *program;
    bool remote;      /* the children are ssh: signals go to their standard input, in words */
    bool tells_early; /* a launcher above waits for the report: print it at the failure */
    struct gyre_launcher_line *launcher_line;
    int launcher_lines;
    bool relays;  /* what one launcher says of a failure, the others are told */
    bool hurried; /* a signal asked us to end: no reader is waited for long */
    enum gyre_children_phase phase;
    uint64_t deadline_ns; /* of the phase; 0: none */
    struct gyre_first_failure first_failure;
    int signal_fd;
    sigset_t old_mask;
    struct pollfd *poll;
};

/* -ENOMEM or -errno and the story. The set of children may be destroyed in either case; that kills
 * what still runs. */
int gyre_children_create(struct gyre_children *all, int children, int launcher_lines,
                         struct gyre_trouble *trouble);
void gyre_children_destroy(struct gyre_children *all);

/* Blocks until all children have ended and their output is written. The exit code, 0 … 255. */
int gyre_children_watch(struct gyre_children *all);

#endif
