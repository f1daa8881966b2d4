/* This process's rank, and of how many: the room's entry, which asks root.c and key.c for the rest.
 *
 * The environment is read through tables, in one order: the caller's options, then Gyre's own and
 * torchrun's variables, then MPI's, Slurm's and Kubernetes'. The first source that tells a rank is
 * believed for all five numbers.
 *
 *                 rank                  world                  place on the node
 *     options     options.rank          options.world          options.local_rank
 *     gyre run ┐
 *     torchrun ┴  RANK                  WORLD_SIZE             LOCAL_RANK, LOCAL_WORLD_SIZE
 *     mpirun      OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE   OMPI_COMM_WORLD_LOCAL_*
 *     mpiexec     PMI_RANK              PMI_SIZE               MPI_LOCALRANKID, MPI_LOCALNRANKS
 *     srun        SLURM_PROCID          SLURM_STEP_NUM_TASKS   SLURM_LOCALID, SLURM_NODEID
 *     indexed Job JOB_COMPLETION_INDEX  WORLD_SIZE
 *     alone       0                     1
 *
 * "Alone" is believed only where nothing speaks against it. A rank without a size, a size without a
 * rank and a Slurm allocation without srun are refused: a world of 1 would there silently compute
 * nonsense. */
#include "transport/job/job.h"
#include "transport/job/inside.h"
#include "base/env.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WORLD_MAX (1 << 20)

struct source {
    const char *name;
    const char *rank, *world, *local_rank, *local_world, *node_rank;
};

static const struct source plain = {"environment",      "RANK",     "WORLD_SIZE", "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE", "NODE_RANK"};
static const struct source open_mpi = {"mpirun",
                                       "OMPI_COMM_WORLD_RANK",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "OMPI_COMM_WORLD_LOCAL_SIZE",
                                       NULL};
static const struct source mvapich = {"mpirun_rsh",
                                      "MV2_COMM_WORLD_RANK",
                                      "MV2_COMM_WORLD_SIZE",
                                      "MV2_COMM_WORLD_LOCAL_RANK",
                                      "MV2_COMM_WORLD_LOCAL_SIZE",
                                      NULL};
static const struct source pmi = {"mpiexec",         "PMI_RANK",        "PMI_SIZE",
                                  "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL};
static const struct source slurm = {"srun",          "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                                    "SLURM_LOCALID", NULL,           "SLURM_NODEID"};

static const struct source kubernetes = {
    "Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL, NULL, NULL};

static const struct source *const sources[] = {&plain, &open_mpi, &mvapich,
                                               &pmi,   &slurm,    &kubernetes};
#define SOURCES (sizeof sources / sizeof sources[0])

/* -- numbers ----------------------------------------------------------------------------------- */

/* Reads a variable. An absent variable (or name) leaves *out alone. */
static int read_job_variable(const char *name, int64_t least, int64_t most, int *out,
                             struct gyre_trouble *trouble)
{
    int64_t value = *out;
    int status = name ? gyre_env_int(name, least, most, &value, trouble) : 0;
    *out = (int)value;
    return status;
}

static int read_source(const struct source *source, struct gyre_job *job,
                       struct gyre_trouble *trouble)
{
    int status = read_job_variable(source->world, 1, WORLD_MAX, &job->world, trouble);
    if (status == 0) {
        status = read_job_variable(source->rank, 0, job->world - 1, &job->rank, trouble);
    }
    if (status == 0) {
        status = read_job_variable(source->local_world, 1, job->world, &job->local_world, trouble);
    }
    if (status == 0) {
        int most = job->local_world > 0 ? job->local_world : job->world;
        status = read_job_variable(source->local_rank, 0, most - 1, &job->local_rank, trouble);
    }
    if (status == 0) {
        status = read_job_variable(source->node_rank, 0, WORLD_MAX, &job->node_rank, trouble);
    }
    return status;
}

/* Reads fields that differ between sources: Slurm compresses the tasks per node; torchrun calls the
 * node's number a group rank. */
static int read_source_extras(const struct source *source, struct gyre_job *job,
                              struct gyre_trouble *trouble)
{
    const char *tasks = gyre_job_variable("SLURM_STEP_TASKS_PER_NODE");
    if (source == &slurm && tasks && job->node_rank >= 0) {
        return gyre_slurm_tasks_on_node("SLURM_STEP_TASKS_PER_NODE", tasks, job->node_rank,
                                        &job->local_world, trouble);
    }
    if (source == &plain && job->node_rank < 0) {
        return read_job_variable("GROUP_RANK", 0, WORLD_MAX, &job->node_rank, trouble);
    }
    return 0;
}

static const char *source_name(const struct source *source)
{
    if (source == &plain && gyre_job_variable("GYRE_LAUNCHER_FD")) {
        return "gyre run";
    }
    if (source == &plain && gyre_job_variable("TORCHELASTIC_RUN_ID")) {
        return "torchrun";
    }
    return source->name;
}

/* -- which source ------------------------------------------------------------------------------ */

/* Whether a source tells about this process. Slurm's variables do so only inside a step. There,
 * srun sets PMI's variables too: then Slurm knows more, unless hydra stands between (only hydra
 * sets MPI_LOCALRANKID). */
static bool speaks(const struct source *source)
{
    if (source == &slurm) {
        return gyre_slurm_in_step();
    }
    if (source == &pmi && gyre_slurm_in_step() && !gyre_job_variable("MPI_LOCALRANKID")) {
        return false;
    }
    return gyre_job_variable(source->rank) != NULL;
}

static const struct source *find_source(void)
{
    for (size_t i = 0; i < SOURCES; i++) {
        if (speaks(sources[i])) {
            return sources[i];
        }
    }
    return NULL;
}

/* Checks a process without a rank for signs that it is not alone. */
static int check_alone(struct gyre_trouble *trouble)
{
    const char *of;
    int stranded = gyre_slurm_stranded(&of);
    if (stranded > 1) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the Slurm allocation is for %d %s but this process is in no step "
                                "of it: started outside srun? Use `srun PROGRAM`, or RANK=0 "
                                "WORLD_SIZE=1 for a world of 1",
                                stranded, of);
    }
    for (size_t i = 0; i < SOURCES; i++) {
        int64_t world = 1;
        const struct source *source = sources[i];
        int status = gyre_env_int(source->world, 1, WORLD_MAX, &world, trouble);
        if (status == 0 && world > 1 && source != &slurm) {
            status = gyre_job_refuse_half(source->world, source->rank, trouble);
        }
        if (status) {
            return status;
        }
    }
    return gyre_job_variable("PMIX_RANK") ? gyre_job_refuse_half("PMIX_RANK", "WORLD_SIZE", trouble)
                                          : 0;
}

static void tell_ignored(const struct source *believed, const struct gyre_job *job)
{
    for (size_t i = 0; i < SOURCES; i++) {
        const struct source *other = sources[i];
        if (other != believed && speaks(other)) {
            gyre_log(GYRE_LOG_INFO, "rank %d of %d by %s; %s=%s is not used", job->rank, job->world,
                     job->source, other->rank, getenv(other->rank));
        }
    }
}

static int read_environment(struct gyre_job *job, struct gyre_trouble *trouble)
{
    const struct source *source = find_source();
    if (!source) {
        job->rank = job->local_rank = 0;
        job->world = job->local_world = 1;
        snprintf(job->source, sizeof job->source, "alone");
        return check_alone(trouble);
    }
    if (!gyre_job_variable(source->world) && source == &kubernetes) {
        return gyre_kubernetes_refuse_size(trouble);
    }
    if (!gyre_job_variable(source->world)) {
        return gyre_job_refuse_half(source->rank, source->world, trouble);
    }
    snprintf(job->source, sizeof job->source, "%s", source_name(source));
    int status = read_source(source, job, trouble);
    if (status == 0) {
        status = read_source_extras(source, job, trouble);
    }
    if (status == 0) {
        tell_ignored(source, job);
    }
    return status;
}

/* -- options ----------------------------------------------------------------------------------- */

static int check_job_options(const struct gyre_options *options, struct gyre_trouble *trouble)
{
    if (options->world < 0 || options->world > WORLD_MAX) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "options.world is %d: expected 1 to %d, or 0 for the environment's",
                                options->world, WORLD_MAX);
    }
    if (options->world == 0 && options->rank > 0) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "options.rank is %d but options.world is 0: set both or neither",
                                options->rank);
    }
    if (options->rank < -1 || (options->world > 0 && options->rank >= options->world)) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "options.rank is %d: expected 0 to %d, or -1 for the environment's",
                                options->rank, options->world - 1);
    }
    return 0;
}

static int check_local_rank(const struct gyre_options *options, const struct gyre_job *job,
                            struct gyre_trouble *trouble)
{
    int most = job->local_world > 0 ? job->local_world : job->world;
    if (options->local_rank < -1 || options->local_rank >= most) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "options.local_rank is %d: expected 0 to %d, or -1 for the "
                                "environment's",
                                options->local_rank, most - 1);
    }
    return 0;
}

static void take_options(const struct gyre_options *options, struct gyre_job *job)
{
    job->rank = options->rank;
    job->world = options->world;
    if (options->world == 1) {
        job->local_rank = 0;
        job->local_world = 1;
    }
    snprintf(job->source, sizeof job->source, "options");
}

/* Finds rank and world. A struct of zeros means "all from the environment", so a rank of 0 counts
 * only together with a world. */
static int find_identity(const struct gyre_options *options, struct gyre_job *job,
                         struct gyre_trouble *trouble)
{
    bool zeros = options->world == 0 && options->rank == 0;
    int status = check_job_options(options, trouble);
    if (status) {
        return status;
    }
    if (options->world > 0 && options->rank >= 0) {
        take_options(options, job);
    } else {
        status = read_environment(job, trouble);
        if (status == 0 && options->world > 0 && options->world != job->world) {
            status = gyre_trouble_set(trouble, GYRE_INVALID,
                                      "options.world is %d but the environment says %d (by %s)",
                                      options->world, job->world, job->source);
        }
    }
    if (status == 0) {
        status = check_local_rank(options, job, trouble);
    }
    if (status == 0 && options->local_rank >= (zeros ? 1 : 0)) {
        job->local_rank = options->local_rank;
    }
    return status;
}

static const struct gyre_options no_options = GYRE_OPTIONS_INIT;

/* -- the rest ---------------------------------------------------------------------------------- */

int gyre_job_find_epoch(uint16_t *epoch, struct gyre_trouble *trouble)
{
    *epoch = 0;
    static const char *const names[] = {"GYRE_EPOCH", "TORCHELASTIC_RESTART_COUNT",
                                        "SLURM_RESTART_COUNT"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (gyre_job_variable(names[i])) {
            int count = 0;
            int status = read_job_variable(names[i], 0, UINT16_MAX, &count, trouble);
            *epoch = (uint16_t)count;
            return status;
        }
    }
    return 0;
}

/* Finds the launcher's pipe. A child of a rank inherits the variable even where another process
 * closed the descriptor on the way. Then the number may mean another file, and watching that file
 * would be worse than watching none. */
static int read_launcher(struct gyre_job *job, struct gyre_trouble *trouble)
{
    struct stat status;
    int fd = -1;
    int failure = read_job_variable("GYRE_LAUNCHER_FD", 0, 1 << 20, &fd, trouble);
    if (failure || fd < 0) {
        return failure;
    }
    if (fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) {
        gyre_log(GYRE_LOG_WARN,
                 "GYRE_LAUNCHER_FD is %d, which is not a pipe here: the end of the launcher will "
                 "not be noticed",
                 fd);
        return 0;
    }
    job->launcher_fd = fd;
    return 0;
}

/* A launcher counts its own starts. In a store of the program's ranks of several launchers meet,
 * whose counts differ where a node has come later (torchrun). There only the user's number
 * counts. */
static int find_epoch_of_group(const struct gyre_options *options, struct gyre_job *job,
                               struct gyre_trouble *trouble)
{
    return options->store && !gyre_job_variable("GYRE_EPOCH")
               ? 0
               : gyre_job_find_epoch(&job->epoch, trouble);
}

static int find_place(const struct gyre_options *options, struct gyre_job *job,
                      struct gyre_trouble *trouble)
{
    int status = find_epoch_of_group(options, job, trouble);
    if (status == 0) {
        status = read_launcher(job, trouble);
    }
    if (status == 0) {
        status =
            read_job_variable("GYRE_SIMULATED_NODE", 0, WORLD_MAX, &job->simulated_node, trouble);
    }
    return status;
}

static const struct gyre_job unknown_job = {.local_rank = -1,
                                            .local_world = -1,
                                            .node_rank = -1,
                                            .root_port_tries = 1,
                                            .launcher_fd = -1,
                                            .simulated_node = -1};

int gyre_job_find_rank(const struct gyre_options *options, struct gyre_job *job,
                       struct gyre_trouble *trouble)
{
    options = options ? options : &no_options;
    *job = unknown_job;
    int status = find_identity(options, job, trouble);
    if (status == 0) {
        status = find_place(options, job, trouble);
    }
    return status;
}

static int find_meeting(const struct gyre_options *options, struct gyre_job *job,
                        struct gyre_trouble *trouble)
{
    int status = gyre_job_root_find(options, job, trouble);
    return status ? status : gyre_job_key_find(options, job, trouble);
}

int gyre_job_discover(const struct gyre_options *options, struct gyre_job *job,
                      struct gyre_trouble *trouble)
{
    int status = gyre_job_find_rank(options, job, trouble);
    return status ? status : find_meeting(options ? options : &no_options, job, trouble);
}

int gyre_job_find_joining(const struct gyre_options *options, bool *joining,
                          struct gyre_trouble *trouble)
{
    int64_t given = 0;
    const bool other = options && (options->world > 0 || options->root || options->store);
    int status = gyre_env_int("GYRE_JOINING", 0, 1, &given, trouble);
    *joining = given && !other;
    return status;
}

/* Rank 0 of a job that runs may have gone to another host. */
static int find_root_hosts(struct gyre_job *job, struct gyre_trouble *trouble)
{
    const char *hosts = gyre_job_variable("GYRE_ROOT_HOSTS");
    if (hosts && strlen(hosts) >= sizeof job->root_hosts) {
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_ROOT_HOSTS has %zu characters, at most %zu are allowed",
                                strlen(hosts), sizeof job->root_hosts - 1);
    }
    snprintf(job->root_hosts, sizeof job->root_hosts, "%s", hosts ? hosts : "");
    return 0;
}

/* A launcher that has started this process says what the job's place and name follow from. A world
 * of 1 would have no place. */
int gyre_job_discover_running(const struct gyre_options *options, struct gyre_job *job,
                              struct gyre_trouble *trouble)
{
    options = options ? options : &no_options;
    *job = unknown_job;
    snprintf(job->source, sizeof job->source, "options");
    const struct source *source = find_source();
    int status = source && gyre_job_variable(source->world) ? read_environment(job, trouble) : 0;
    if (status == 0) {
        status = find_place(options, job, trouble);
    }
    job->world = job->world > 2 ? job->world : 2;
    job->rank = job->first_here = 0;
    job->local_rank = options->local_rank > 0 ? options->local_rank : job->local_rank;
    job->local_world = -1;
    if (status == 0) {
        status = find_root_hosts(job, trouble);
    }
    return status ? status : find_meeting(options, job, trouble);
}
