/* All children of one launcher, watched until the last has ended.
 *
 * The caller creates the set, spawns into all->child[0 … children), adds lines to other launchers
 * and calls gyre_children_watch(), which handles output, signals, the first failure and the orderly
 * end of all other children. */
#ifndef GYRE_LAUNCH_CHILDREN_H
#define GYRE_LAUNCH_CHILDREN_H

#include "launch/child.h"
#include "launch/launcher_line.h"

#include <poll.h>
#include <signal.h>

#define GYRE_CHILDREN_DOUBT_MS      200 /* a death replaces a mere exit code as the first failure */
#define GYRE_CHILDREN_LAST_WORDS_MS 1000 /* for other children's output after a failure */
#define GYRE_CHILDREN_TERM_MS       5000 /* from the request to end until the kill */
#define GYRE_REPORT_PREFIX          "gyre run: "

enum gyre_children_phase {
    GYRE_CHILDREN_RUNS,
    GYRE_CHILDREN_DOUBTS,
    GYRE_CHILDREN_LAST_WORDS,
    GYRE_CHILDREN_ENDS,
    GYRE_CHILDREN_KILLED
};

struct gyre_first_failure {
    int code;       /* 0: there is none */
    int child;      /* a child whose exit code is still to come, -1: none */
    bool announced; /* to the other launchers */
    bool suspected; /* a mere exit code, which no death has replaced */
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
    bool relays;  /* passes on to other launchers a failure that one of them tells */
    bool hurried; /* a signal asked for the end: slow readers of the output are not waited for */
    enum gyre_children_phase phase;
    uint64_t deadline_ns; /* of the phase; 0: none */
    struct gyre_first_failure first_failure;
    int signal_fd;
    sigset_t old_mask;
    struct pollfd *poll;
};

/* -ENOMEM or -errno with its trouble. The set may be destroyed in either case, which kills children
 * that still run. */
int gyre_children_create(struct gyre_children *all, int children, int launcher_lines,
                         struct gyre_trouble *trouble);
void gyre_children_destroy(struct gyre_children *all);

/* Blocks until all children have ended and their output is written. The exit code, 0 … 255. */
int gyre_children_watch(struct gyre_children *all);

#endif
