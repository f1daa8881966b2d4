/* The inside of this room, for its files only.
 *
 *     job.c        the entry: rank and world, then all the rest
 *     root.c       where the ranks meet
 *     id.c         the job's name, equal on all its ranks
 *     key.c        the secret
 *     folder.c     the folders of key files and address files
 *     kubernetes.c where rank 0 of an indexed Job is
 *     slurm.c      node lists, and whether srun started this process
 *     variable.c   variables of the environment
 *     boot.c       the id of the running kernel
 *     options.c    options kept for later
 *
 * A file calls only files listed below it. */
#ifndef GYRE_TRANSPORT_JOB_INSIDE_H
#define GYRE_TRANSPORT_JOB_INSIDE_H

#include "transport/job/job.h"

#include <stddef.h>

/* -- variable.c -------------------------------------------------------------------------------- */

/* The value of a variable, NULL when it is unset or empty. */
const char *gyre_job_variable(const char *name);

/* GYRE_INVALID: the variable `have` is set and `lack`, which belongs to it, is not. */
int gyre_job_refuse_half(const char *have, const char *lack, struct gyre_trouble *trouble);

/* -- root.c ------------------------------------------------------------------------------------ */

/* Writes root_* and the id, each of which may be derived from the other. */
int gyre_job_root_find(const struct gyre_options *options, struct gyre_job *job,
                       struct gyre_trouble *trouble);

/* -- id.c -------------------------------------------------------------------------------------- */

/* The name that the user gives the job; NULL: none. */
const char *gyre_job_name(const struct gyre_options *options);

/* Writes job->id. GYRE_INVALID with world > 1 where nothing distinguishes this job from another,
 * not even an address in root_host. Source, world, local_world and epoch are filled before. */
int gyre_job_id_find(const struct gyre_options *options, struct gyre_job *job,
                     struct gyre_trouble *trouble);

/* A port for the job from its id, outside the ranges from which kernels choose. */
uint16_t gyre_job_id_port(const uint8_t id[16]);

/* -- key.c ------------------------------------------------------------------------------------- */

/* Writes key, key_id and authenticated. A world of 1 without an explicit key touches no file. */
int gyre_job_key_find(const struct gyre_options *options, struct gyre_job *job,
                      struct gyre_trouble *trouble);

/* -- folder.c ---------------------------------------------------------------------------------- */

/* Writes the folder of the user's own key, which need not exist. */
int gyre_job_config_folder(char *path, size_t room, struct gyre_trouble *trouble);

/* Makes a folder where it is missing, for its owner alone. */
int gyre_job_make_folder(const char *path, struct gyre_trouble *trouble);

/* Writes job->root_file, beside the key, and makes the folder where it is missing. */
int gyre_job_root_file(struct gyre_job *job, struct gyre_trouble *trouble);

/* -- kubernetes.c ------------------------------------------------------------------------------ */

/* GYRE_INVALID: a pod of an indexed Job without WORLD_SIZE. */
int gyre_kubernetes_refuse_size(struct gyre_trouble *trouble);

/* Makes the name of the Job's first pod from the full name of pod `index`. */
int gyre_kubernetes_first_pod(const char *name, int index, char *first, size_t room,
                              struct gyre_trouble *trouble);

/* Writes the address of the Job's first pod as the root's. */
int gyre_kubernetes_root(struct gyre_job *job, struct gyre_trouble *trouble);

/* -- slurm.c ----------------------------------------------------------------------------------- */

/* Whether srun started this process. False in sbatch's own script and in salloc's shell. */
bool gyre_slurm_in_step(void);

/* Returns the size of the allocation around a process that srun did not start, 0: none. *of names
 * the unit: "nodes (SLURM_NNODES)". */
int gyre_slurm_stranded(const char **of);

/* Finds the first host of this step's node list. */
int gyre_slurm_first_host(char *host, size_t room, struct gyre_trouble *trouble);

/* Finds the tasks on node number `node` in a compressed list such as "4(x2),2"; `name` is what
 * messages call the list. */
int gyre_slurm_tasks_on_node(const char *name, const char *list, int node, int *tasks,
                             struct gyre_trouble *trouble);

#endif
