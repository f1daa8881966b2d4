/* The job of this process, and the process's place in it.
 *
 * Both are found once, from gyre_init()'s options and the environment, before any other I/O than
 * reading the key. */
#ifndef GYRE_TRANSPORT_JOB_JOB_H
#define GYRE_TRANSPORT_JOB_JOB_H

#include "base/status.h"

#include <stdbool.h>

enum gyre_root_kind {
    GYRE_ROOT_ADDRESS, /* host and port are known to all */
    GYRE_ROOT_FILE,    /* rank 0 writes "host port\n" to `root_file` */
    GYRE_ROOT_HELD     /* as an address, where rank 0's process listens already, on `root_fd` */
};

struct gyre_job {
    int rank, world;
    int local_rank, local_world; /* as the launcher says; -1 if it does not */
    int node_rank;               /* as the launcher says; -1 if it does not */
    uint16_t epoch;              /* restart count */
    uint8_t id[16];              /* equal on all ranks of the job, unlike other jobs' */
    uint8_t key[32];             /* of this job: derived from the user's key and the id */
    uint8_t key_id[8];           /* names the user's key without telling it */
    bool authenticated;          /* false: GYRE_AUTH=none */
    enum gyre_root_kind root_kind;
    char root_host[256];
    uint16_t root_port;  /* 0: rank 0 picks a free one (file) */
    int root_port_tries; /* ports from root_port on that may hold the root, 1 … 17 */
    char root_file[512];
    int root_fd; /* held, of rank 0: borrowed until it has joined */
    /* "gyre run", "torchrun", "environment", "mpirun", "mpirun_rsh", "mpiexec", "srun", "options"
     * or "alone" */
    char source[32];
    int launcher_fd;            /* read end of the launcher's pipe, -1 without */
    int simulated_node;         /* gyre run --simulate-nodes; -1: none */
    int first_here, ranks_here; /* ranks that this process has; 0 of them: this one only */
};

/* Whether `rank` is one of this process's ranks. */
static inline bool gyre_job_here(const struct gyre_job *job, uint32_t rank)
{
    return rank - (uint32_t)job->first_here < (uint32_t)job->ranks_here;
}

/* Fills *job, or fails with GYRE_INVALID or GYRE_REFUSED and its trouble. `options` may be NULL;
 * the rank in it counts only together with a world. The first call reads and closes the descriptor
 * GYRE_KEY_FD; later calls remember the key. Key bytes are wiped from buffers. A world of 1 touches
 * no file. One thread. */
int gyre_job_discover(const struct gyre_options *options, struct gyre_job *job,
                      struct gyre_trouble *trouble);

/* A Slurm node list, expanded: "gnode[10,20-22]x,b" → names. Calls each(name) in order; 0 or
 * GYRE_INVALID, before the first call. A result of each() other than 0 ends the list and is
 * returned. */
int gyre_node_list_expand(const char *list, int (*each)(const char *name, void *context),
                          void *context, struct gyre_trouble *trouble);

#endif
