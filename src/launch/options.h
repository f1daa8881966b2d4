/* The options of one launch. */
#ifndef GYRE_LAUNCH_OPTIONS_H
#define GYRE_LAUNCH_OPTIONS_H

#include "launch/seating.h"

#include <stdbool.h>

struct gyre_launch_options {
    char *const *program;        /* argv of every rank, ended by NULL */
    struct gyre_seating seating; /* a node's size may be 0 until the launchers meet */
    int node;                    /* the node of the seating that this launcher starts */
    bool simulate;               /* this machine plays all nodes of the seating */
    bool controlled; /* by another launcher, whose key and lines (launcher_line.h) come by standard
                        input */
    const struct gyre_hosts *hosts; /* start each node on its host, over ssh; NULL: start ranks */
    const char *hosts_file;  /* from which `hosts` are, read again on SIGHUP; NULL: no file */
    int hosts_each;          /* ranks of a host that has no number there */
    int leave_limit_ms;      /* for ranks whose host has gone from there */
    bool changes;            /* the launcher above has such a file */
    const char *master_addr; /* the address of rank 0; NULL: loopback, or the first host */
    int master_port;         /* 0: a free port */
    const char *job;         /* the job's name; NULL: a random one */
    const char *log_dir;     /* the folder of rank-<r>.out and rank-<r>.err; NULL: no logs */
    bool bind;               /* each rank runs on its own cores */
    bool prefix;             /* "[rank] " before each line */
    int restarts;           /* how often the whole job is started again after a failure, at most; or
                             a lost rank of an elastic job */
    int restart_pause_ms;   /* before the first of these; each later one doubles it, up to 30 s */
    int elastic_least;      /* ranks that must be left of a job that loses some; 0: all */
    int elastic_most;       /* to which it may grow; 0: as many as at its start */
    int epoch;              /* of the first start; -1: the environment's */
    bool joining;           /* the ranks join a job that runs */
    bool takes_callers;     /* launchers may call in (--join): the key is the user's own */
    const char *root_hosts; /* where these find it, beside master_addr; NULL: nowhere else */
};

#endif
