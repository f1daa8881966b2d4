/* The words of `gyre run`, as given, and what they mean together. */
#ifndef GYRE_CLI_RUN_FLAGS_H
#define GYRE_CLI_RUN_FLAGS_H

#include "cli/flags.h"
#include "launch/launch.h"

enum {
    NPROC,
    SIMULATE,
    HOSTS,
    HOSTS_FILE,
    HOSTFILE,
    LEAVE_WITHIN,
    NNODES,
    NODE_RANK,
    ADDR,
    PORT,
    BIND,
    BACKEND,
    DEVICES,
    LOG_DIR,
    NO_PREFIX,
    RESTARTS,
    ELASTIC,
    MAX_RESTARTS,
    PAUSE,
    JOB,
    RDZV_ID,
    RDZV_ENDPOINT,
    RDZV_BACKEND,
    JOIN,
    STANDALONE,
    NESTED,
    NODE,
    EPOCH,
    JOINING,
    CHANGES,
    ROOT_HOSTS,
    HELP,
    FLAGS
};

extern const struct gyre_flag gyre_run_flags[FLAGS];

struct gyre_run_words { /* as given; NULL where not */
    const char *of[FLAGS];
};

/* Fills *options (and *hosts, which it may point to) from the words; options->program is set
 * already. GYRE_INVALID and the story where they contradict each other or cannot be read. */
int gyre_run_settle(const struct gyre_run_words *words, struct gyre_hosts *hosts,
                    struct gyre_launch_options *options, struct gyre_trouble *trouble);

#endif
