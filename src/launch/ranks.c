/* The ranks of this machine.
 *
 * Each rank is the user's program. Its environment has the variables that launchers of this field
 * usually set, from which any program finds its place, and up to nine more:
 *
 *     RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT
 *     TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
 *     GYRE_JOB             the job's name
 *     GYRE_EPOCH           how often the job was restarted
 *     GYRE_ELASTIC         how few and how many ranks an elastic job may have
 *     GYRE_JOINING         1: the rank joins a job that runs
 *     GYRE_ROOT_HOSTS      where that may be found, beside MASTER_ADDR
 *     GYRE_KEY_FD          32 secret bytes in a memfd of the rank's own
 *     GYRE_LAUNCHER_FD     a pipe that ends with the launcher
 *     GYRE_RECORD_FD       a memfd for its records, which the launcher reads when it was killed
 *     GYRE_SIMULATED_NODE  the node this rank plays, where one machine plays several
 *
 * Threads of numerical libraries share the machine evenly unless the user sets their number: n
 * ranks that each start a thread per core are slower than one rank.
 *
 * Tested by tests/program/launch/launch.c. */
#include "launch/start.h"

#include "base/disk/folder.h"
#include "base/log.h"
#include "launch/cores.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const thread_variables[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                               "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                               "NUMEXPR_NUM_THREADS"};

/* Variables of another launcher that may have started this one: they describe another job. */
static const char *const foreign_variables[] = {"GYRE_ELASTIC",
                                                "GYRE_ROOT_HOSTS",
                                                "GYRE_JOINING",
                                                "GYRE_KEY",
                                                "GYRE_KEY_FD",
                                                "GYRE_RECORD_FD",
                                                "GYRE_SIMULATED_NODE",
                                                "TORCHELASTIC_RUN_ID",
                                                "TORCHELASTIC_USE_AGENT_STORE"};

int gyre_ranks_here(const struct gyre_launch_options *options, const struct gyre_seating *seating)
{
    return options->simulate ? gyre_seating_world(seating) : seating->size[options->node];
}

static void add_threads(struct gyre_variables *variables, int threads)
{
    for (size_t i = 0; i < sizeof thread_variables / sizeof *thread_variables; i++)
        if (!getenv(thread_variables[i]))
            gyre_variables_add(variables, "%s=%d", thread_variables[i], threads);
}

static void add_place(struct gyre_variables *variables, const struct gyre_rank_seat *place,
                      int world)
{
    gyre_variables_add(variables, "RANK=%d", place->rank);
    gyre_variables_add(variables, "WORLD_SIZE=%d", world);
    gyre_variables_add(variables, "LOCAL_RANK=%d", place->local_rank);
    gyre_variables_add(variables, "LOCAL_WORLD_SIZE=%d", place->local_size);
    gyre_variables_add(variables, "NODE_RANK=%d", place->node);
}

static void add_restarts(struct gyre_variables *variables, const struct gyre_launch_job *job)
{
    int left = job->restarts.most - job->restarts.used;
    gyre_variables_add(variables, "GYRE_EPOCH=%d", job->epoch);
    gyre_variables_add(variables, "TORCHELASTIC_RESTART_COUNT=%d", job->epoch);
    gyre_variables_add(variables, "TORCHELASTIC_MAX_RESTARTS=%d", job->epoch + left);
}

static void describe_rank(struct gyre_variables *variables,
                          const struct gyre_launch_options *options,
                          const struct gyre_launch_job *job, const struct gyre_rank_seat *place,
                          const char *joins_at)
{
    for (size_t i = 0; i < sizeof foreign_variables / sizeof *foreign_variables; i++)
        if (job->has_key || strcmp(foreign_variables[i], "GYRE_KEY"))
            gyre_variables_add(variables, "%s", foreign_variables[i]);
    add_place(variables, place, gyre_seating_world(&job->seating));
    gyre_variables_add(variables, "MASTER_ADDR=%s", job->master_addr);
    gyre_variables_add(variables, "MASTER_PORT=%d", job->master_port);
    gyre_variables_add(variables, "GYRE_JOB=%s", job->id);
    add_restarts(variables, job);
    if (job->elastic_least)
        gyre_variables_add(variables, "GYRE_ELASTIC=%d:%d", job->elastic_least,
                           gyre_launch_elastic_most(job));
    if (joins_at)
        gyre_variables_add(variables, "GYRE_JOINING=1");
    if (joins_at && *joins_at)
        gyre_variables_add(variables, "GYRE_ROOT_HOSTS=%s", joins_at);
    if (options->simulate)
        gyre_variables_add(variables, "GYRE_SIMULATED_NODE=%d", place->node);
}

static int make_log_folder(const char *path, struct gyre_trouble *trouble)
{
    struct gyre_trouble why = {0};
    return gyre_folder_make(path, 0777, &why)
               ? gyre_trouble_set(trouble, GYRE_INVALID, "--log-dir: %s", why.text)
               : 0;
}

/* A log of a job or a rank that was restarted goes on: it holds why. */
static int open_log(const char *folder, int rank, const char *ending, bool goes_on, int *fd,
                    struct gyre_trouble *trouble)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/rank-%d.%s", folder, rank, ending);
    *fd = open(path, O_WRONLY | O_CREAT | (goes_on ? O_APPEND : O_TRUNC) | O_CLOEXEC, 0666);
    if (*fd < 0)
        return gyre_trouble_set(trouble, GYRE_INVALID, "--log-dir: cannot write '%s': %s", path,
                                strerror(errno));
    return 0;
}

/* A terminal's input stays with the launcher: the kernel would stop a rank that reads the terminal
 * from another process group. */
static enum gyre_child_input rank_input(const struct gyre_launch_options *options, int rank)
{
    bool reads = rank == 0 && !options->controlled && !isatty(STDIN_FILENO);
    return reads ? GYRE_INPUT_INHERITED : GYRE_INPUT_NONE;
}

static int open_logs(struct gyre_spawn *spawn, const struct gyre_launch_options *options,
                     const struct gyre_launch_job *job, int rank, bool joins,
                     struct gyre_trouble *trouble)
{
    bool goes_on = joins || job->epoch > 0;
    int status = 0;
    spawn->out_log = spawn->err_log = -1;
    if (options->log_dir)
        status = open_log(options->log_dir, rank, "out", goes_on, &spawn->out_log, trouble);
    if (options->log_dir && !status)
        status = open_log(options->log_dir, rank, "err", goes_on, &spawn->err_log, trouble);
    return status;
}

static int start_rank(struct gyre_children *all, int index, struct gyre_spawn *spawn,
                      const struct gyre_launch_options *options, int rank,
                      struct gyre_trouble *trouble)
{
    struct gyre_child *child = &all->child[index];
    child->ranks = 1;
    spawn->input = rank_input(options, rank);
    snprintf(child->name, sizeof child->name, "rank %d on %s", rank, gyre_host_name());
    int status = gyre_child_spawn(child, &all->group, spawn, trouble);
    if (!status && options->prefix) {
        snprintf(child->out.prefix, sizeof child->out.prefix, "[%d] ", rank);
        snprintf(child->err.prefix, sizeof child->err.prefix, "[%d] ", rank);
    }
    return status;
}

/* Where a rank that joins finds rank 0: as this launcher was told, or on hosts that it knows. */
static const char *hosts_to_join(const struct gyre_children *all,
                                 const struct gyre_launch_options *options,
                                 char text[GYRE_HOSTS_TEXT])
{
    if (options->joining && !options->controlled && options->root_hosts)
        return options->root_hosts;
    gyre_children_list_hosts(all, text);
    return text;
}

static int start_place(struct gyre_children *all, int index,
                       const struct gyre_launch_options *options, const struct gyre_launch_job *job,
                       bool joins, struct gyre_trouble *trouble)
{
    static struct gyre_cores cores;
    char hosts[GYRE_HOSTS_TEXT];
    cpu_set_t cpus;
    int first = options->simulate ? 0 : gyre_seating_first_rank(&job->seating, options->node);
    struct gyre_rank_seat place = gyre_seating_seat(&job->seating, first + index);
    struct gyre_variables variables = {0};
    struct gyre_spawn spawn = {.program = options->program,
                               .variables = &variables,
                               .out = &all->out,
                               .err = &all->err,
                               .shown = &all->shown,
                               .key = job->has_key ? job->key : NULL,
                               .records = getenv("GYRE_DUMP") && *getenv("GYRE_DUMP")};
    if (!cores.count)
        gyre_cores_find(&cores);
    describe_rank(&variables, options, job, &place,
                  joins ? hosts_to_join(all, options, hosts) : NULL);
    add_threads(&variables, gyre_cores_per_rank(&cores, all->children));
    if (options->bind) {
        gyre_cores_of_rank(&cores, index, all->children, &cpus);
        spawn.cpus = &cpus;
    }
    int status = open_logs(&spawn, options, job, place.rank, joins, trouble);
    return status ? status : start_rank(all, index, &spawn, options, place.rank, trouble);
}

int gyre_ranks_start(struct gyre_children *all, const struct gyre_launch_options *options,
                     const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    int status = options->log_dir ? make_log_folder(options->log_dir, trouble) : 0;
    for (int i = 0; i < all->children && !status; i++)
        status = start_place(all, i, options, job, options->joining, trouble);
    return status;
}

int gyre_rank_start_again(struct gyre_children *all, int index,
                          const struct gyre_launch_options *options,
                          const struct gyre_launch_job *job, struct gyre_trouble *trouble)
{
    return start_place(all, index, options, job, true, trouble);
}
