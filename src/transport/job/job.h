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
    GYRE_ROOT_FILE,    /* rank 0 writes where it is to `root_file` */
    GYRE_ROOT_STORE,   /* the same, under the name `root_file` in `store` */
    /* Like an address, but rank 0's process listens there already, on `root_fd`. */
    GYRE_ROOT_HELD
};

struct gyre_job {
    int rank, world;
    int local_rank, local_world; /* as the launcher says; -1: it does not */
    int node_rank;               /* as the launcher says; -1: it does not */
    uint16_t epoch;              /* restart count */
    uint8_t id[16];              /* equal on all ranks of the job, unlike other jobs' */
    uint8_t key[32];             /* of this job: derived from the user's key and the id */
    uint8_t key_id[8];           /* names the user's key without revealing it */
    bool authenticated;          /* false: GYRE_AUTH=none */
    enum gyre_root_kind root_kind;
    char root_host[256];
    /* Further hosts where a newcomer looks for rank 0, at the same port; "": none. */
    char root_hosts[1024];
    uint16_t root_port;  /* 0: rank 0 picks a free one (file) */
    int root_port_tries; /* ports from root_port on that rank 0 may have, 1 … 17 */
    char root_file[512];
    struct gyre_store store; /* copied */
    bool group;              /* one of several: this process may have other jobs meanwhile */
    bool key_in_place;       /* `key` is drawn by rank 0, and lies in the file or the store */
    int root_fd;             /* held, of rank 0: borrowed until it has joined */
    /* "gyre run", "torchrun", "environment", "mpirun", "mpirun_rsh", "mpiexec", "srun",
     * "Kubernetes", "options" or "alone" */
    char source[32];
    int launcher_fd;            /* read end of the launcher's pipe, -1 without */
    int simulated_node;         /* gyre run --simulate-nodes; -1: none */
    int first_here, ranks_here; /* ranks of this process; 0 of them: only this rank */
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

/* As gyre_job_discover(), for a process that wants to join a job that runs: it needs no rank, and
 * rank and world of *job mean nothing. */
int gyre_job_discover_running(const struct gyre_options *options, struct gyre_job *job,
                              struct gyre_trouble *trouble);

/* Copies what gyre_job_discover_running() reads of options, in one piece of memory, for
 * gyre_job_forget_options(). NULL: no memory. */
struct gyre_options *gyre_job_keep_options(const struct gyre_options *options);
void gyre_job_forget_options(struct gyre_options *kept); /* NULL allowed; wipes the key */

/* Whether the launcher has started this process in a job that runs (GYRE_JOINING), and the options
 * name no other job. GYRE_INVALID with its trouble. */
int gyre_job_find_joining(const struct gyre_options *options, bool *joining,
                          struct gyre_trouble *trouble);

/* Takes `key` as the job's, as a place where ranks meet has told it. 0 or -errno. */
int gyre_job_adopt_key(struct gyre_job *job, const uint8_t key[32]);

/* Fills in the part of *job that tells this process from others: rank and world, also on the node,
 * source and epoch. Reads the environment only. One thread. */
int gyre_job_find_rank(const struct gyre_options *options, struct gyre_job *job,
                       struct gyre_trouble *trouble);

/* Finds how often the job was restarted, as the environment says it; 0: it does not. GYRE_INVALID
 * with its trouble. */
int gyre_job_find_epoch(uint16_t *epoch, struct gyre_trouble *trouble);

enum gyre_key_origin {
    GYRE_KEY_UNWANTED, /* GYRE_AUTH=none */
    GYRE_KEY_LAUNCHED, /* from the launcher, GYRE_KEY_FD */
    GYRE_KEY_VARIABLE, /* GYRE_KEY */
    GYRE_KEY_FILE,     /* `path` */
    GYRE_KEY_TO_MAKE   /* `path` does not exist and is made at first need */
};

struct gyre_key_place {
    enum gyre_key_origin origin;
    char path[4096]; /* "" where there is no file */
    uint8_t key_id[8];
};

/* Finds where a job of several ranks would read the user's key, and makes no key. Returns
 * GYRE_INVALID or GYRE_REFUSED with its trouble where a rank would fail in the same way. Reads and
 * closes GYRE_KEY_FD; a later gyre_job_discover() in this process uses the key that was read. One
 * thread. */
int gyre_job_find_key(struct gyre_key_place *place, struct gyre_trouble *trouble);

/* Reads the user's own key as a rank of several does that no launcher has started, and makes the
 * file at first need. GYRE_INVALID or GYRE_REFUSED with its trouble. One thread. */
int gyre_job_user_key(uint8_t key[32], struct gyre_trouble *trouble);

/* Expands a Slurm node list: "gnode[10,20-22]x,b" → names. Calls each(name) in order. Returns 0 or
 * GYRE_INVALID, before the first call. A result of each() other than 0 ends the list and is
 * returned. */
int gyre_node_list_expand(const char *list, int (*each)(const char *name, void *context),
                          void *context, struct gyre_trouble *trouble);

/* The comma that ends the name at `at`, or the list's end. Commas inside brackets end nothing. */
const char *gyre_node_list_end(const char *at);

/* The names of the list, each ended by a zero and the last by two. The caller frees *text. */
int gyre_node_list_names(const char *list, char **text, struct gyre_trouble *trouble);

#endif
