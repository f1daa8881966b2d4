/* Start a job's ranks, pass their output on, and end all of them when one fails. The room behind
 * `gyre run`. */
#ifndef GYRE_LAUNCH_LAUNCH_H
#define GYRE_LAUNCH_LAUNCH_H

#include "launch/seating.h"

#include <stdbool.h>

struct gyre_launch_options {
    char *const *program;        /* argv of every rank, ended by NULL */
    struct gyre_seating seating; /* nodes of size 0 tell it when the launchers meet */
    int node;                    /* the node of the seating that is started here */
    bool simulate;               /* this machine plays all nodes of the seating */
    bool
        controlled; /* by another launcher: standard input brings the key, then words (launcher_line.h) */
    const struct gyre_hosts *hosts; /* start each node on its host, over ssh; NULL: start ranks */
    const char *master_addr;        /* where rank 0 is reached; NULL: loopback, or the first host */
    int master_port;                /* 0: a free one */
    const char *job;                /* name of the job; NULL: a random one */
    const char *log_dir;            /* rank-<r>.out and rank-<r>.err are written here; NULL: none */
    bool bind;                      /* each rank runs on its own cores */
    bool prefix;                    /* "[rank] " before each line */
};

/* Blocks until the job has ended. Returns the exit code: 0, the first failing rank's, 128 + n for
 * signal n, 126 or 127 if the program cannot be started. The last line on standard error then names
 * the first failure. A negative status with the story where nothing was started. Uses the process's
 * signal mask and standard streams: one launch at a time. */
int gyre_launch(const struct gyre_launch_options *options, struct gyre_trouble *trouble);

#endif
