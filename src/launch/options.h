/* What a launch is asked for. */
#ifndef GYRE_LAUNCH_OPTIONS_H
#define GYRE_LAUNCH_OPTIONS_H

#include "launch/seating.h"

#include <stdbool.h>

struct gyre_launch_options {
    char *const *program;        /* argv of every rank, ended by NULL */
    struct gyre_seating seating; /* nodes of size 0 tell it when the launchers meet */
    int node;                    /* the node of the seating that is started here */
    bool simulate;               /* this machine plays all nodes of the seating */
    bool controlled; /* by another launcher, whose key and lines (launcher_line.h) come by standard
                        input */
    const struct gyre_hosts *hosts; /* start each node on its host, over ssh; NULL: start ranks */
    const char *master_addr;        /* where rank 0 is reached; NULL: loopback, or the first host */
    int master_port;                /* 0: a free one */
    const char *job;                /* name of the job; NULL: a random one */
    const char *log_dir;            /* rank-<r>.out and rank-<r>.err are written here; NULL: none */
    bool bind;                      /* each rank runs on its own cores */
    bool prefix;                    /* "[rank] " before each line */
};

#endif
