/* A job after launch.c has completed its options, and the two ways to start a job. */
#ifndef GYRE_LAUNCH_START_H
#define GYRE_LAUNCH_START_H

#include "launch/children/children.h"
#include "launch/options.h"

struct gyre_launch_job {
    struct gyre_seating seating; /* no node has size 0 */
    struct gyre_hosts hosts;     /* of the nodes, where they are started over ssh */
    bool changes;                /* hosts come and go */
    char here[GYRE_HOST_MAX];    /* this host, as ranks on others find it; "": there are none */
    char master_addr[GYRE_HOST_MAX];
    int master_port;
    char id[64];
    uint8_t key[GYRE_KEY_BYTES];
    bool has_key; /* false: the ranks use the user's own key, see GYRE_KEY_FILE */
    int epoch;    /* goes up with each start */
    struct gyre_restarts restarts;
    int elastic_least, elastic_most; /* as given; 0: not */
};

/* To how many ranks an elastic job may grow: without a number of its own it does not. */
static inline int gyre_launch_elastic_most(const struct gyre_launch_job *job)
{
    return job->elastic_most ? job->elastic_most : gyre_seating_world(&job->seating);
}

/* The number of ranks that this launcher starts itself: all ranks where it simulates every node,
 * otherwise its node's. */
int gyre_ranks_here(const struct gyre_launch_options *options, const struct gyre_seating *seating);

/* Whether lost ranks are started again, each in its place, or hosts come and go. */
static inline bool gyre_launch_returns(const struct gyre_launch_job *job)
{
    return job->elastic_least && (job->restarts.most || job->changes);
}

/* Spawns all children: the ranks of this machine, or one ssh for each host. -errno with its
 * trouble. */
int gyre_ranks_start(struct gyre_children *all, const struct gyre_launch_options *options,
                     const struct gyre_launch_job *job, struct gyre_trouble *trouble);
int gyre_hosts_start(struct gyre_children *all, const struct gyre_launch_options *options,
                     const struct gyre_launch_job *job, struct gyre_trouble *trouble);

/* Spawns one of these children again, whose ranks join the job that runs. -errno with its
 * trouble. */
int gyre_rank_start_again(struct gyre_children *all, int index,
                          const struct gyre_launch_options *options,
                          const struct gyre_launch_job *job, struct gyre_trouble *trouble);
int gyre_host_start_again(struct gyre_children *all, int index,
                          const struct gyre_launch_options *options,
                          const struct gyre_launch_job *job, struct gyre_trouble *trouble);

/* Lets hosts come and go, as the hosts file says now. */
void gyre_hosts_change(struct gyre_children *all, const struct gyre_launch_options *options,
                       struct gyre_launch_job *job);
/* Takes the hosts file as it is now for another start of the whole job. */
void gyre_hosts_renew(const struct gyre_launch_options *options, struct gyre_launch_job *job);

#endif
